// What a lane keeps and works in for one shape of micro-batch, cut from one block of memory. T is
// what products take (float, bf16, double), R = Real<T>.
//   N = batch * time rows, D width, H heads, KV key/value heads, K head width, F hidden width
#pragma once

#include <cstdint>
#include <vector>

#include "core/aligned_memory.h"
#include "kernels/types.h"
#include "model/config.h"
#include "ops/attention.h"
#include "ops/head.h"

namespace taper {

// What one block keeps for its backward pass.
template <typename T>
struct Kept {
  using R = Real<T>;
  R *h, *h_mid;        // [N, D] inputs of the two norms
  T* qkv;              // [N, (H + 2 KV) K]
  T* mixed;            // [N, H K] the attention's output
  R* lse;              // [B, H, T]
  T* gate_up;          // [N, 2 F]
  R *rstd, *rstd_mid;  // [N]
};

template <typename T>
struct LaneBuffers {
  using R = Real<T>;

  // `threads`: of the lane's team. A layout without a block only measures.
  LaneBuffers(const ModelConfig& config, int64_t batch, int64_t time, int threads,
              MemoryLayout& layout);

  std::vector<Kept<T>> blocks;
  R* h_last;             // [N, D]
  R *rstd_last, *scale;  // [N]; scale: s(h) at the final norm's input
  uint8_t* mask;         // [N] rows that count in the statistics
  T* x;                  // [N, D] an operand of products
  R *dx, *dh;            // [N, D]
  T* dh_operand;         // [N, D]
  R* norm_scratch;
  // Attention, MLP and head are never at work at the same time: their buffers share memory.
  T *hidden, *dhidden;  // [N, F]
  T* dgate_up;          // [N, 2 F]
  T *dmixed, *dqkv;     // [N, H K], [N, (H + 2 KV) K]
  R* attention_scratch;
  HeadScratch<T> head;
};

AttentionShape attention_shape(const ModelConfig& config, int64_t batch, int64_t time);

}  // namespace taper
