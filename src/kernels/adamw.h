// AdamW (Loshchilov and Hutter 2019, decoupled weight decay) over flat float buffers, in one sweep:
//   g' = gradient_scale * g,  m = b1 m + (1 - b1) g',  v = b2 v + (1 - b2) g'^2,
//   p -= lr * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * p)
// and the reductions a step needs first. Element-wise: any split of the range gives the same bits.
// Thread-safe over disjoint ranges; no allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

struct AdamWArgs {
  float* parameters;
  float* gradients;
  float* first_moments;
  float* second_moments;
  double learning_rate, beta1, beta2, eps, weight_decay, gradient_scale;
  int64_t step;          // t, 1 for the first update
  bool clear_gradients;  // sets g = 0 after use
};

void adamw_range(const AdamWArgs& args, Range elements);

// In double; the order of the additions depends on the count and the vector width only. Not finite
// exactly when an element is not: the square of a float never overflows a double.
double sum_of_squares(const float* values, int64_t count);

// Index of the first NaN or infinity, -1 when there is none.
int64_t first_non_finite(const float* values, int64_t count);

}  // namespace taper
