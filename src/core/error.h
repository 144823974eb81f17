// Typed errors and process exit codes.
//
// Every error a user can cause is one of these types. what() holds the first line: what went wrong,
// where (file, tensor, byte, key), expected and found. hint() is the next step, one sentence, may
// be empty. The command line prints "error: <what>\n  <hint>" and exits with code().
#pragma once

#include <stdexcept>
#include <string>

namespace taper {

enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,      // a bug of ours
  kUsage = 2,         // command line or configuration
  kBadInput = 3,      // a file that is not what it should be
  kNumerics = 4,      // divergence, failed verification
  kResource = 5,      // memory, disk
  kInterrupted = 130  // Ctrl-C or SIGTERM, after everything was saved
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what, std::string hint)
      : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

#define TAPER_DEFINE_ERROR(Name, exit_code)                       \
  class Name : public Error {                                     \
   public:                                                        \
    explicit Name(const std::string& what, std::string hint = "") \
        : Error(exit_code, what, std::move(hint)) {}              \
  }

TAPER_DEFINE_ERROR(ConfigError, ExitCode::kUsage);       // a flag, key or value
TAPER_DEFINE_ERROR(FormatError, ExitCode::kBadInput);    // a malformed or foreign file
TAPER_DEFINE_ERROR(ShapeError, ExitCode::kBadInput);     // tensors that do not fit the model
TAPER_DEFINE_ERROR(NumericsError, ExitCode::kNumerics);  // NaN, divergence, verification
TAPER_DEFINE_ERROR(ResourceError, ExitCode::kResource);  // disk, memory, permissions
TAPER_DEFINE_ERROR(Interrupted, ExitCode::kInterrupted);
#undef TAPER_DEFINE_ERROR

// Throws std::logic_error naming file, line and condition: for invariants, never for user input.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

#define TAPER_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::taper::check_failed(__FILE__, __LINE__, #condition))

}  // namespace taper
