#include "train/peer_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

extern char** environ;

namespace taper {

PeerProcess::PeerProcess(const std::vector<std::string>& command) : name_(command.at(0)) {
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
    throw ResourceError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error =
      ::posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  to_ = input[1];
  from_ = output[0];
  if (error == 0) return;
  ::close(to_);
  ::close(from_);
  throw ResourceError(fmt::format("cannot start {}: {}", name_, std::strerror(error)),
                      "install what the peers need with: make bench-setup");
}

PeerProcess::~PeerProcess() {
  ::close(to_);
  ::close(from_);
  ::waitpid(pid_, nullptr, 0);
}

std::string PeerProcess::read_line() {
  while (true) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    char buffer[4096];
    const ssize_t count = ::read(from_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    pending_.append(buffer, static_cast<size_t>(count));
  }
}

Json PeerProcess::ask(const std::string& request) {
  // A peer that is gone must be an error here, not a signal.
  const auto previous = ::signal(SIGPIPE, SIG_IGN);
  const ssize_t written = ::write(to_, request.data(), request.size());
  ::signal(SIGPIPE, previous);
  const std::string line = written < 0 ? "" : read_line();
  if (line.empty())
    throw ConfigError(fmt::format("{} ended without an answer (its own message is above)", name_),
                      "install what the peers need with: make bench-setup");
  return parse_json(line, name_);
}

StepNumbers PeerProcess::numbers(double gate) {
  const Json answer = ask(fmt::format("check {}\n", gate));
  StepNumbers numbers;
  numbers.loss = json_at<double>(answer, "loss", name_);
  for (const auto& [tensor, norm] : answer.at("gradient_norms").items())
    numbers.gradient_norms[tensor] = norm.get<double>();
  return numbers;
}

PeerTurn PeerProcess::turn(int64_t steps) {
  const Json answer = ask(fmt::format("{}\n", steps));
  return {answer.at("seconds").get<double>(), answer.at("tokens").get<double>(),
          answer.at("peak_memory_mb").get<double>(), answer.at("loss").get<double>()};
}

}  // namespace taper
