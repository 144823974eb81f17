// The parameters of a model as one lane of the training pass uses them: operands of products, and
// where gradients are added. Pointers into buffers that TrainingPass owns or was given.
#pragma once

#include <vector>

#include "kernels/taper_norm.h"
#include "model/norm_sites.h"

namespace taper {

template <typename R>
struct LinearWeights {
  const void* operand = nullptr;  // [out, in] in the type that products take
  R* gradient = nullptr;          // of the operand
  int64_t out = 0, in = 0;
};

template <typename R>
struct NormWeights {
  NormForm form = NormForm::kIdentity;  // never kFixedScale: that is folded into the operand
  TaperNormArgs<R> args{};
  R* dgamma = nullptr;
  R* dgamma_t = nullptr;          // null: not tapered (yet)
  TaperNormSums* sums = nullptr;  // gathers calibration sums, when given

  bool is_identity() const { return form == NormForm::kIdentity; }
};

template <typename R>
struct BlockWeights {
  NormWeights<R> attention_norm;
  LinearWeights<R> qkv;  // [(H + 2 KV) K, D]
  LinearWeights<R> out;  // [D, H K]
  NormWeights<R> mlp_norm;
  LinearWeights<R> gate_up;  // [2 F, D]
  LinearWeights<R> down;     // [D, F]
};

template <typename R>
struct ModelWeights {
  const R* embedding = nullptr;  // [V, D]
  R* dembedding = nullptr;
  std::vector<BlockWeights<R>> blocks;
  NormWeights<R> final_norm;
  LinearWeights<R> head;  // [V, D]
};

}  // namespace taper
