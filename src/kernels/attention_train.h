// Causal attention for training: grouped-query heads, rotary embedding inside, no T x T matrix.
//   out[t] = sum over s <= t of softmax_s(<rot(q[t]), rot(k[s])> / sqrt(K)) v[s]
// qkv: [B, T, (H + 2 KV) K], per token the query heads, then keys, then values; out: [B, T, H K].
// Rotary pairs are (i, i + K/2); cosines and sines are [T, K/2]. K is even. Arithmetic in Real<T>.
//
// The unit of work is a group: the H / KV query heads that share one key/value head of one
// sequence. Group b * KV + kv writes its own part of every output, so any split over threads gives
// the same bits. Thread-safe over disjoint ranges of groups; the caller brings scratch, one piece a
// thread; no allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

struct AttentionShape {
  int64_t batch;         // B
  int64_t time;          // T
  int64_t num_heads;     // H
  int64_t num_kv_heads;  // KV, divides H
  int64_t head_width;    // K, even

  int64_t groups() const { return batch * num_kv_heads; }
  int64_t row() const { return (num_heads + 2 * num_kv_heads) * head_width; }
};

// Elements of Real<T> a call needs, for one thread.
int64_t attention_forward_scratch(const AttentionShape& shape);
int64_t attention_backward_scratch(const AttentionShape& shape);

// lse: [B, H, T], log2 of the sum over keys of 2^(score log2 e): what the backward pass needs
// besides its inputs.
template <typename T>
void attention_forward_groups(const AttentionShape& shape, Range groups, const T* qkv,
                              const Real<T>* cosines, const Real<T>* sines, T* out, Real<T>* lse,
                              Real<T>* scratch);

// dqkv is overwritten, all of the groups' parts.
template <typename T>
void attention_backward_groups(const AttentionShape& shape, Range groups, const T* qkv,
                               const Real<T>* cosines, const Real<T>* sines, const T* out,
                               const Real<T>* lse, const T* dout, T* dqkv, Real<T>* scratch);

}  // namespace taper
