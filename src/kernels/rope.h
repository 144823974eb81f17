// Rotary position embedding in the Hugging Face layout: channel i of a head is paired with i + K/2.
//   (a, b) -> (a cos - b sin, b cos + a sin),  angle = position * theta^(-2 i / K)
// Angles are computed in double and stored as cosines and sines in R.
#pragma once

#include <cstdint>
#include <vector>

namespace taper {

template <typename R>  // float or double
class RopeTable {
 public:
  RopeTable(int64_t positions, int64_t head_width, double theta);

  int64_t positions() const { return positions_; }
  // [K / 2] of a position; those of the next one follow.
  const R* cosines(int64_t position) const { return cos_.data() + position * half_; }
  const R* sines(int64_t position) const { return sin_.data() + position * half_; }

  // Rotates `heads` heads of width K in place, all at one position. Any K that is even.
  void rotate(R* x, int64_t heads, int64_t position) const;

 private:
  int64_t positions_, half_;
  std::vector<R> cos_, sin_;
};

}  // namespace taper
