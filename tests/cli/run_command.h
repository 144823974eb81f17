// Runs a program and captures what it prints; for tests of the command line.
//   const CommandResult result = run_command("taper", {"info", "folder"});
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace taper {

struct CommandResult {
  int exit_code = -1;  // 128 + the signal when one ended it
  bool timed_out = false;
  std::string out, err;
};

// `program` is a name in the build's bin folder, or a path with a slash. A program that runs longer
// than `seconds` is killed. Thread-safe.
inline CommandResult run_command(const std::string& program, std::vector<std::string> arguments,
                                 const std::string& input = "", int seconds = 120) {
  using Clock = std::chrono::steady_clock;
  const bool is_path = program.find('/') != std::string::npos;
  const std::string path = is_path ? program : fmt::format("{}/{}", TAPER_BIN_DIR, program);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  CommandResult result;
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe failed";
    return result;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execv(path.c_str(), argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  ::fcntl(in[1], F_SETFL, O_NONBLOCK);
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);  // the program may not read all of its input

  size_t sent = 0;
  pollfd polled[3] = {{in[1], POLLOUT, 0}, {out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* const sinks[3] = {nullptr, &result.out, &result.err};
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  const auto close_at = [&polled](int i) { ::close(std::exchange(polled[i].fd, -1)); };
  while (polled[1].fd >= 0 || polled[2].fd >= 0) {
    if (polled[0].fd >= 0 && sent == input.size()) close_at(0);
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      ::kill(child, SIGKILL);
      result.timed_out = true;
      break;
    }
    ::poll(polled, 3, static_cast<int>(left));
    if (polled[0].fd >= 0 && polled[0].revents != 0) {
      const ssize_t count = ::write(polled[0].fd, input.data() + sent, input.size() - sent);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EAGAIN) close_at(0);
    }
    for (int i = 1; i < 3; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t count = ::read(polled[i].fd, buffer, sizeof(buffer));
      if (count > 0) sinks[i]->append(buffer, static_cast<size_t>(count));
      if (count == 0) close_at(i);
    }
  }
  for (int i = 0; i < 3; ++i)
    if (polled[i].fd >= 0) close_at(i);
  ::sigaction(SIGPIPE, &before, nullptr);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.timed_out) ADD_FAILURE() << path << " ran longer than " << seconds << " s";
  return result;
}

}  // namespace taper
