#include "core/error.h"

#include <fmt/format.h>

namespace taper {

void check_failed(const char* file, int line, const char* condition) {
  throw std::logic_error(fmt::format("{}:{}: check failed: {}", file, line, condition));
}

}  // namespace taper
