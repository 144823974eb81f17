// The head and its cross-entropy, a chunk of rows at a time, so that the full logits never exist.
//   logits [N, V] = x weight^T;  loss = sum over rows with a target of log(sum e^z) - z[target]
// T is what products take (float, bf16, double); R = Real<T>.
#pragma once

#include <cstdint>

#include "core/aligned_memory.h"
#include "kernels/types.h"
#include "ops/linear.h"

namespace taper {

struct HeadShape {
  int64_t rows;   // N
  int64_t width;  // D
  int64_t vocab;  // V
};

// What the op works in, laid out for one shape.
template <typename T>
struct HeadScratch {
  HeadScratch() = default;
  HeadScratch(const HeadShape& shape, MemoryLayout& layout);

  int64_t chunk_rows = 0;
  Real<T>* logits = nullptr;                          // [chunk, V]
  T* dlogits = nullptr;                               // [chunk, V]
  double *losses = nullptr, *square_norms = nullptr;  // [N]
};

template <typename T>
struct HeadArgs {
  HeadShape shape;
  const T* x;              // [N, D]
  const T* weight;         // [V, D]
  const int64_t* targets;  // [N], negative: not counted
  bool backward = false;   // the gradients of loss_weight * loss:
  Real<T> loss_weight = 1;
  Real<T>* dx = nullptr;       // [N, D], overwritten
  Real<T>* dweight = nullptr;  // [V, D], added to
};

struct HeadSums {
  double loss = 0;        // in nats
  double logit_norm = 0;  // of the L2 norms of rows of logits
  int64_t count = 0;      // rows with a target
};

template <typename T>
HeadSums head_cross_entropy(const OpContext& context, LinearOp& linear, const HeadArgs<T>& args,
                            HeadScratch<T>& scratch);

}  // namespace taper
