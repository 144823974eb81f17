// Small kernels of inference: what lies between the matrix products. fp32.
// Thread-safe on disjoint outputs. No allocation, no exception.
#pragma once

#include <cstdint>

namespace taper {

// y = h / sqrt(mean(h^2) + eps) * gamma for each of `rows` rows of `width`.
void rms_norm(const float* h, int64_t rows, int64_t width, const float* gamma, float eps, float* y);

// y = multiplier * h, the fixed linear map that a fully tapered norm is.
void scale_rows(const float* h, int64_t rows, int64_t width, const float* multiplier, float* y);

// gate <- silu(gate) * up, silu(x) = x / (1 + exp(-x)).
void silu_multiply(float* gate, const float* up, int64_t count);

// log(sum of exp(x_i)), stable for any finite x; not finite when an x is not. count >= 1.
float log_sum_exp(const float* x, int64_t count);

}  // namespace taper
