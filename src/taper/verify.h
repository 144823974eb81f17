// Comparing two models by their logits on the same tokens: are they one function up to rounding?
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace taper {

// How far apart the logits of a folded model and the tapered one may lie, relative to the largest
// logit of the position. Rounding makes the difference, but how much of it depends on the model: a
// well-conditioned one shows 1e-6, one whose attention is nearly a hard choice amplifies a single
// rounding to 1e-3 along a long sequence. So the allowance is a multiple of what moving each folded
// weight by one unit in the last place does to the same model (with_rounding_noise), and never less
// than a floor that any fp32 model keeps.
inline constexpr double kLogitTolerance = 2e-5;
inline constexpr double kNoiseMultiple = 10;
// Above this noise a comparison proves nothing.
inline constexpr double kMaxRoundingNoise = 1e-2;

// max(kLogitTolerance, kNoiseMultiple * noise); NumericsError starting with `what` when the noise
// is above kMaxRoundingNoise or not a number.
double fold_tolerance(double noise, const std::string& what);

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
