// Comparing two models by their logits on the same tokens: are they one function up to rounding?
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace taper {

// The largest relative difference that fp32 rounding explains. A folded model differs from the
// tapered one by one rounding of each weight and one or two of each activation; relative to the
// largest logit of a position this was measured between 1e-7 and 5e-6 over models of 1 to 12 layers
// (docs/checkpoints.md), while a fold that misses a norm or a factor is off by 1e-2 and more.
inline constexpr double kLogitTolerance = 5e-5;

// Streams pairs of logit rows. A NaN or infinity on either side counts as an infinite difference.
class LogitComparison {
 public:
  // The logits of the next position by both models, equally long and not empty.
  void add(std::span<const float> reference, std::span<const float> other);

  int64_t positions() const { return positions_; }
  double max_abs_difference() const { return max_abs_; }
  // |a - b| / max |a| with the maximum over the position's vocabulary.
  double max_rel_difference() const { return max_rel_; }
  // Where max_rel_difference was found; -1 before the first difference.
  int64_t worst_position() const { return worst_position_; }
  int64_t worst_token() const { return worst_token_; }

  // NumericsError naming `what`, the difference and the place when it is above `tolerance`, or when
  // nothing was compared.
  void require_within(double tolerance, const std::string& what) const;

 private:
  int64_t positions_ = 0;
  double max_abs_ = 0, max_rel_ = 0;
  int64_t worst_position_ = -1, worst_token_ = -1;
};

}  // namespace taper
