// AdamW over flat float buffers, one sweep, split over threads; and what the step needs to know
// first. Loshchilov & Hutter 2019, decoupled weight decay:
//   g' = gradient_scale * g,  m = b1 m + (1 - b1) g',  v = b2 v + (1 - b2) g'^2,
//   p -= lr * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * p)
// Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>

namespace taper::ops {

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;       // 0 where a range does not decay
  double gradient_scale = 1;     // the clip factor
  int64_t step = 1;              // t: 1 for the first update of this range
  bool clear_gradients = false;  // set them to 0 in the same sweep
};

// All four of one size. Gradients are written only when options.clear_gradients.
void adamw_update(const AdamWOptions& options, std::span<float> parameters,
                  std::span<float> gradients, std::span<float> first_moments,
                  std::span<float> second_moments);

// Sum of squares in double over fixed blocks, added in order. Not finite exactly when an
// element is not: the square of a float never overflows a double.
double sum_of_squares(std::span<const float> values);

// Index of the first element that is NaN or infinite, -1 when all are finite.
int64_t first_non_finite(std::span<const float> values);

}  // namespace taper::ops
