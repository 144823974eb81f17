// The differentiable operations of the training graph: thin autograd functions over the kernels of
// src/kernels, split over threads here.
//
// Shapes: B batch, T time, N tokens (any leading dimensions, B * T), D width, H query heads, KV
// key/value heads, K head width, F hidden width, V vocabulary. Types: parameters and their
// gradients are float; activations are float or bfloat16 (arithmetic in float). With double
// parameters everything is double (finite-difference tests). Any other combination, and any shape
// that does not fit, is a ShapeError that names both sides. Results do not depend on the number of
// threads: sums over rows are taken over fixed blocks, in order. (Matrix products are the
// exception: they repeat bit for bit at a fixed number of threads.) First derivatives only. Call
// from one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/taper_norm.h"

namespace taper::ops {

// What calibration gathers while the gate is 1, summed over the rows of one call: divide by `rows`
// for means, or add up over micro-batches first. Calls add to the struct.
using NormSums = TaperNormSums;

// The norm of method.md, section 1, over the last dimension of h:
//   y = gate * (h / r) * gamma + (1 - gate) * scale * h * gamma_t,   r = sqrt(mean(h^2) + eps)
// gamma, gamma_t: [D]. gamma_t may be undefined when gate == 1 (the plain norm). At gate == 1 the
// result is the plain norm's bit for bit; at gate == 0 no statistic is computed and gamma gets a
// zero gradient. `sums`, when given, needs gate > 0; rows whose `row_mask` byte is 0 (kBool or
// kByte, N elements; undefined: none) are left out of it. No gradient flows through the sums.
at::Tensor taper_rms_norm(const at::Tensor& h, const at::Tensor& gamma, const at::Tensor& gamma_t,
                          double scale, double gate, double eps, NormSums* sums = nullptr,
                          const at::Tensor& row_mask = {});

// The plain norm: taper_rms_norm at gate 1.
at::Tensor rms_norm(const at::Tensor& h, const at::Tensor& gamma, double eps);

// The anchor (method.md, section 1): loss_sum = sum over counted rows of (r(h) - target)^2, a
// scalar (float, or double with h) that carries gradient to h; L_aux = lambda * loss_sum / count,
// normalised by the caller over micro-batches like the cross-entropy.
struct AnchorLoss {
  at::Tensor loss_sum;
  double scale_sum = 0;  // sum of r: s_tgt is its mean
  int64_t count = 0;     // rows counted
};
AnchorLoss anchor_loss(const at::Tensor& h, double target, double eps,
                       const at::Tensor& row_mask = {});

// Sum of r(h) and the number of rows, without a graph: measures s_tgt.
struct ScaleSum {
  double scale_sum = 0;
  int64_t count = 0;
};
ScaleSum residual_scale(const at::Tensor& h, double eps, const at::Tensor& row_mask = {});

// Causal self-attention with grouped-query heads and rotary embedding:
//   out[t, h] = sum over s <= t of softmax_s(<rot(q[t, h]), rot(k[s, h / (H / KV)])> / sqrt(K))
//   v[s, h / (H / KV)]
// qkv: [B, T, (H + 2 KV) K], per token the query heads, then keys, then values. Result: [B, T, H
// K]. rope: [>= T, K/2] cosines and sines, float (double with double activations); pairs are (i, i
// + K/2), the Hugging Face layout. K is even. Keeps qkv, the result and one log-sum-exp a query;
// never a T x T matrix.
at::Tensor causal_attention(const at::Tensor& qkv, int64_t num_heads, int64_t num_kv_heads,
                            const at::Tensor& rope_cos, const at::Tensor& rope_sin);

// cos and sin of position * theta^(-2 i / K), [positions, K/2] each, computed in double.
struct RopeTables {
  at::Tensor cos, sin;
};
RopeTables rope_tables(int64_t positions, int64_t head_width, double theta,
                       at::ScalarType type = at::kFloat);

// silu(gate) * up. gate_up: [..., 2F], gate first. Result: [..., F].
at::Tensor swiglu(const at::Tensor& gate_up);

// x W^T, no bias. x: [..., in], weight: [out, in]. Result: [..., out] in x's type.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

// Rows of weight [V, D] at ids (int64, any shape): [..., D] in `type` (default: weight's own). A
// ShapeError names the first id outside [0, V).
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight);
at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, at::ScalarType type);

// Head and cross-entropy: logits = hidden weight^T, loss_sum = sum over counted rows of
// logsumexp(logits) - logits[target]. The logits exist for a chunk of rows at a time; gradients are
// computed in the same pass (when any is needed) and scaled by the incoming gradient later. hidden:
// [..., D], weight: [V, D], targets: int64, one a row, kIgnoredTarget = not counted.
inline constexpr int64_t kIgnoredTarget = -100;
struct HeadLoss {
  at::Tensor
      loss_sum;  // scalar, float (double with double weights); divide by the step's token count
  double loss_sum_value = 0;  // the same number, accumulated in double
  double logit_norm_sum = 0;  // sum over counted rows of ||logits||
  int64_t count = 0;          // rows counted
};
HeadLoss head_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets);

// Loss of every row, without a graph: [...] like targets, float (double with double weights), 0
// where ignored.
at::Tensor head_token_losses(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& targets);

}  // namespace taper::ops
