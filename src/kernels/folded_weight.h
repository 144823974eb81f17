// A linear layer's weight with the fixed scale of a tapered norm multiplied in (method.md, section
// 1): for good by `taper fold`, and for the length of a call while training at gate 0.
//   W' = W diag(s),  s = c gamma_t;  with G the gradient of W':
//   dW += G diag(s),  dgamma_t[i] += c sum over o of G[o, i] W[o, i]
// Row-major [out, in]. T is float, bf16 or double; arithmetic in Real<T>. No allocation;
// thread-safe over disjoint ranges.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/types.h"

namespace taper {

// Rows of W', in T. `scale` [in] may be null: a conversion only.
template <typename T>
void fold_weight(Range rows, int64_t in, const Real<T>* weight, const Real<T>* scale, T* to);

template <typename R>  // float or double
struct FoldedWeightGradient {
  std::span<R* const> gradients;  // [out, in] each, whose sum is G; set to 0
  const R* weight;                // W [out, in]
  const R* gamma_t;               // [in]
  R scale;                        // c
  R* dweight;                     // [out, in], added to
  R* dgamma_t;                    // [in], added to
  int64_t out, in;
};

// For a range of columns, so that the sums over rows keep one order.
template <typename R>
void fold_weight_backward(const FoldedWeightGradient<R>& args, Range columns);

// to = from, in bf16.
void convert(const float* from, int64_t count, bf16* to);

// to += from
template <typename R>
void add_row(const R* from, int64_t count, R* to);

}  // namespace taper
