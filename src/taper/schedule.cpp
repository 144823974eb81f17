#include "taper/schedule.h"

#include <cmath>
#include <numbers>

namespace taper {

double GateSchedule::gate(int64_t step) const {
  if (step < start) return 1.0;
  if (step >= end) return 0.0;
  const double progress = static_cast<double>(step - start) / static_cast<double>(end - start);
  return (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
}

std::string_view GateSchedule::phase(int64_t step) const {
  if (step < start) return "warmup";
  return step < end ? "taper" : "settle";
}

}  // namespace taper
