// Counts the instructions of a piece of code: a measure of a kernel that neither the machine's
// speed nor its load moves.
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace taper::test {

// Instructions that a child executes up to the end of `body`, one step at a time (some microseconds
// each). Nothing where the system allows no tracing.
inline std::optional<int64_t> instructions_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  int64_t count = 0;
  while (WIFSTOPPED(status) && ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0) {
    ::waitpid(child, &status, 0);
    ++count;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return count;
  if (WIFSTOPPED(status)) {  // tracing ended in between
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return {};
}

// Instructions of `body` alone. It runs here once before, so that addresses are bound.
inline std::optional<int64_t> count_instructions(const std::function<void()>& body) {
  body();
  const auto around = instructions_of_child([] {}), all = instructions_of_child(body);
  if (!around || !all) return {};
  return *all - *around;
}

}  // namespace taper::test
