#include "report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "report/format.h"

namespace taper {
namespace {

// The smallest of 1, 2, 5 times a power of ten that gives at most max_ticks intervals over `span`.
double nice_step(double span, int max_ticks) {
  const double raw = span / std::max(max_ticks, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// The values m * 10^e inside [low, high], m from `factors`.
std::vector<double> decade_values(double low, double high, const std::vector<double>& factors,
                                  int exponent_step) {
  std::vector<double> values;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int exponent = first; exponent <= last; ++exponent) {
    if (exponent_step > 1 && exponent % exponent_step != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, exponent);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::string tick_label(double value, double step) {
  if (std::abs(value) < step * 1e-6) return "0";
  if (step >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (step >= 1e4) return fmt::format("{:g}k", value / 1e3);
  if (step >= 1) return format_count(std::llround(value));
  if (step < 1e-4) return fmt::format("{:g}", value);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

Scale Scale::linear(double low, double high, int max_ticks, bool nice) {
  Scale scale;
  if (!(high - low > 1e-12 * std::max(std::abs(low), std::abs(high)))) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room;
    high += room;
  }
  const double step = nice_step(high - low, max_ticks);
  if (nice) {
    low = std::floor(low / step + 1e-6) * step;
    high = std::ceil(high / step - 1e-6) * step;
  }
  scale.low_ = low;
  scale.high_ = high;
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-6));
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-6));
  for (int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    scale.ticks_.push_back({value, tick_label(value, step)});
  }
  return scale;
}

Scale Scale::logarithmic(double low, double high, int max_ticks) {
  Scale scale;
  scale.log_ = true;
  const double room = std::pow(high / low, 0.04) * 1.02;
  scale.low_ = low / room;
  scale.high_ = high * room;
  std::vector<double> values;
  for (const std::vector<double>& factors :
       {std::vector<double>{1, 2, 5}, std::vector<double>{1, 3}, std::vector<double>{1}}) {
    values = decade_values(scale.low_, scale.high_, factors, 1);
    if (static_cast<int>(values.size()) <= max_ticks) break;
  }
  for (int every = 2; static_cast<int>(values.size()) > max_ticks; ++every)
    values = decade_values(scale.low_, scale.high_, {1}, every);
  // Over less than half a decade, round linear ticks read better.
  if (values.size() < 2) {
    for (const Tick& tick : linear(scale.low_, scale.high_, max_ticks, false).ticks_)
      scale.ticks_.push_back(tick);
    return scale;
  }
  for (const double value : values) scale.ticks_.push_back({value, tick_label(value, value)});
  return scale;
}

void Scale::set_pixels(double at_low, double at_high) {
  pixel_low_ = at_low;
  pixel_high_ = at_high;
}

double Scale::position(double value) const {
  if (log_) return std::log(std::max(value, 1e-300) / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

double Scale::pixel(double value) const {
  return pixel_low_ + position(value) * (pixel_high_ - pixel_low_);
}

}  // namespace taper
