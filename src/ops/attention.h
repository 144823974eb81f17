// Causal attention with rotary embedding over a batch of windows, its groups of heads split over a
// team (kernels/attention_train.h has layouts and formulas).
#pragma once

#include "kernels/attention_train.h"
#include "kernels/rope.h"
#include "ops/context.h"

namespace taper {

// Elements of Real<T> that a team of `threads` works in, forward or backward.
int64_t attention_scratch(const AttentionShape& shape, int threads);

// `rope` covers at least shape.time positions.
template <typename T>
void attention_forward(const OpContext& context, const AttentionShape& shape, const T* qkv,
                       const RopeTable<Real<T>>& rope, T* mixed, Real<T>* lse, Real<T>* scratch);

// dqkv is overwritten.
template <typename T>
void attention_backward(const OpContext& context, const AttentionShape& shape, const T* qkv,
                        const RopeTable<Real<T>>& rope, const T* mixed, const Real<T>* lse,
                        const T* dmixed, T* dqkv, Real<T>* scratch);

}  // namespace taper
