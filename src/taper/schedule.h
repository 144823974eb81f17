// The gate g(k), a pure function of the optimizer step (method.md, section 1):
//   1 before start; (1 + cos(pi p)) / 2 with p = (k - start) / (end - start) inside; 0 from end on.
#pragma once

#include <cstdint>
#include <string_view>

namespace taper {

struct GateSchedule {
  int64_t start = 0;
  int64_t end = 0;  // end > start

  double gate(int64_t step) const;             // exactly 1 before start, exactly 0 from end on
  std::string_view phase(int64_t step) const;  // "warmup", "taper", "settle"
};

}  // namespace taper
