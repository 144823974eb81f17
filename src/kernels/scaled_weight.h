// Small helpers of the training pass: conversions between storage types, and weights that carry a
// tapered norm at gate 0 (virtual folding).
//   W' = W diag(s),  s = c gamma_t;  with G the gradient of W':
//   dW += G diag(s),  dgamma_t[i] += c sum over o of G[o, i] W[o, i]
// Row-major [out, in]. T is float or bf16. No allocation; thread-safe over disjoint ranges.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace taper {

template <typename T>
void convert(const float* from, int64_t count, T* to);

// to += from
template <typename T>
void add_row(const T* from, int64_t count, float* to);

// Rows of W', in T. `scale` [in] may be null: a conversion only.
template <typename T>
void scale_weight(Range rows, int64_t in, const float* weight, const float* scale, T* to);

struct ScaledWeightGradient {
  std::span<float* const> gradients;  // [out, in] each, whose sum is G; set to 0
  const float* weight;                // W [out, in]
  const float* gamma_t;               // [in]
  float scale;                        // c
  float* dweight;                     // [out, in], added to
  float* dgamma_t;                    // [in], added to
  int64_t out, in;
};

// For a range of columns, so that the sums over rows keep one order.
void scale_weight_backward(const ScaledWeightGradient& args, Range columns);

}  // namespace taper
