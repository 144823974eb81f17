// A weight as products take it, with the fixed scale of the norm in front of it multiplied in, and
// the gradients of both from that product's (kernels/folded_weight.h has the formulas).
#pragma once

#include <cstdint>

#include "kernels/folded_weight.h"
#include "ops/context.h"

namespace taper {

// to [out, in] = weight diag(c gamma_t) in T; without gamma_t, a conversion only.
template <typename T>
void fold_forward(ThreadPool& team, int64_t out, int64_t in, const Real<T>* weight,
                  const Real<T>* gamma_t, Real<T> c, T* to);

template <typename R>
void fold_backward(ThreadPool& team, const FoldedWeightGradient<R>& args);

}  // namespace taper
