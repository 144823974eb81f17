#include "taper/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace taper {

double fold_tolerance(double noise, const std::string& what) {
  if (!(noise <= kMaxRoundingNoise)) {
    throw NumericsError(
        fmt::format("{}: cannot be verified, rounding alone moves the logits by {:.3g} of their "
                    "scale (at most {:.1g} can be judged)",
                    what, noise, kMaxRoundingNoise),
        "the model is chaotic or damaged: look at its loss at gate 0, and train on");
  }
  return std::max(kLogitTolerance, kNoiseMultiple * noise);
}

void LogitComparison::add(std::span<const float> reference, std::span<const float> other) {
  TAPER_CHECK(!reference.empty() && reference.size() == other.size());
  double scale = 0;
  double largest = -1;
  size_t where = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double difference =
        std::isfinite(reference[i]) && std::isfinite(other[i])
            ? std::abs(static_cast<double>(reference[i]) - static_cast<double>(other[i]))
            : std::numeric_limits<double>::infinity();
    if (std::isfinite(reference[i])) scale = std::max(scale, std::abs(double{reference[i]}));
    if (difference > largest) {
      largest = difference;
      where = i;
    }
  }
  const double relative = largest == 0 ? 0 : largest / scale;
  max_abs_ = std::max(max_abs_, largest);
  if (relative > max_rel_) {
    max_rel_ = relative;
    worst_position_ = positions_;
    worst_token_ = static_cast<int64_t>(where);
  }
  ++positions_;
}

void LogitComparison::require_within(double tolerance, const std::string& what) const {
  if (positions_ == 0) throw NumericsError(what + ": no logits were compared");
  if (max_rel_ <= tolerance) return;
  throw NumericsError(
      fmt::format("{}: logits differ by {:.3g} of their scale ({:.3g} absolute) at "
                  "position {}, token {}; rounding explains at most {:.1g}",
                  what, max_rel_, max_abs_, worst_position_, worst_token_, tolerance));
}

}  // namespace taper
