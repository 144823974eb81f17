#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "core/error.h"

namespace taper {
namespace {

[[noreturn]] void throw_output_error(int error) {
  if (error == EPIPE) throw ClosedPipe();
  throw ResourceError("cannot write to stdout: " + std::generic_category().message(error),
                      "free some space, or send the output elsewhere");
}

}  // namespace

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw_output_error(errno);
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw_output_error(errno);
}

}  // namespace taper
