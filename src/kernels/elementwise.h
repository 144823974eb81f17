// Small kernels of inference: what lies between the matrix products, beside the norms. fp32.
// Thread-safe on disjoint outputs. No allocation, no exception.
#pragma once

#include <cstdint>

namespace taper {

// y = multiplier * h for each of `rows` rows of `width`: the fixed linear map that a fully tapered
// norm is.
void scale_rows(const float* h, int64_t rows, int64_t width, const float* multiplier, float* y);

// gate <- silu(gate) * up, silu(x) = x / (1 + exp(-x)).
void silu_multiply(float* gate, const float* up, int64_t count);

// log(sum of exp(x_i)), stable for any finite x; not finite when an x is not. count >= 1.
float log_sum_exp(const float* x, int64_t count);

}  // namespace taper
