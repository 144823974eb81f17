// AdamW (Loshchilov and Hutter 2019, decoupled weight decay) over flat float buffers, in one sweep:
//   g' = gradient_scale * g,  m = b1 m + (1 - b1) g',  v = b2 v + (1 - b2) g'^2,
//   p -= lr * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * p)
// and the reductions a step needs first. Element-wise: any split of the range gives the same bits.
// Thread-safe over disjoint ranges; no allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  double gradient_scale = 1;  // the clip factor
  int64_t step = 1;           // t, 1 for the first update
};

void adamw_range(const AdamWOptions& options, Range elements, float* parameters,
                 const float* gradients, float* first_moments, float* second_moments);

// In double; the order of the additions depends on the count and the vector width only. Not finite
// exactly when an element is not: the square of a float never overflows a double.
double sum_of_squares(const float* values, int64_t count);

// Index of the first NaN or infinity, -1 when there is none.
int64_t first_non_finite(const float* values, int64_t count);

}  // namespace taper
