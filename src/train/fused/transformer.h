// The training pass of a pre-norm transformer (Llama family): losses and gradients of one batch of
// windows, written out by hand over the kernels, without a tape. train/nn/transformer.h owns the
// parameters and describes them here; no torch below this line.
//
// Every norm has one consumer, so the unit is a normed product:
//   the norm is folded   y = h W^T
//   tapered, gate 0      y = h W'^T,  W' = W diag(c gamma~), made once a call (virtual folding)
//   otherwise            y = x W^T,   x = N(h), computed again in the backward
// Virtually folded, nothing runs over tokens and nothing is kept for the norm; the gradients come
// from the weight's, once a call: with G = dy^T h,  dW += G diag(c gamma~),  dgamma~ += c colsum(G
// W).
//
// Depth first: each thread is a lane that takes few windows at a time through all layers and back,
// so that what they keep stays in its cache, with gradients of its own that are added up at the
// end. Models whose gradients are too large for that, and batches with fewer windows than threads,
// split each op instead.
//
// Kept per layer and token: h twice, q k v, the attention's output, gate and up, the statistics.
// T is float, or bf16 for operands of products and what they keep: the residual stream and its
// gradient, statistics, softmax, losses and gradients of parameters stay float. Results repeat bit
// for bit at a fixed number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/taper_norm.h"
#include "model/config.h"
#include "train/fused/profile.h"

namespace taper {

// A parameter and where its gradient is added.
struct FusedLeaf {
  const float* value = nullptr;
  float* gradient = nullptr;
  const void* operand = nullptr;  // as products take it (train/fused/operands.h); not the caller's
};

struct FusedNorm {
  bool folded = false;
  FusedLeaf gamma;                // [D]
  FusedLeaf gamma_t;              // [D]; no value: not tapered (yet)
  double scale = 0;               // c
  TaperNormSums* sums = nullptr;  // gathers calibration sums; needs the plain norm
};

struct FusedBlock {
  FusedNorm attention_norm, ffn_norm;
  FusedLeaf qkv;      // [(H + 2 KV) K, D]
  FusedLeaf out;      // [D, H K]
  FusedLeaf gate_up;  // [2 F, D]
  FusedLeaf down;     // [D, F]
};

struct FusedParameters {
  FusedLeaf embedding;  // [V, D]
  std::vector<FusedBlock> blocks;
  FusedNorm final_norm;
  FusedLeaf head;                               // [V, D]; the embedding's when tied
  std::span<float> gradients, taper_gradients;  // the buffers that all leaves' gradients lie in
};

struct FusedBatch {
  const int64_t* ids;      // [batch, time], each in [0, V)
  const int64_t* targets;  // [batch, time], kIgnoredTarget or in [0, V)
  int64_t batch, time;
};

struct PassOptions {
  double gate = 1;
  bool skip_first_position = false;     // leave position 0 of a window out of the statistics
  std::optional<double> anchor_target;  // s_tgt
  bool backward = false;
  // Gradients are those of loss_weight * loss_sum + anchor_weight * anchor_sum.
  double loss_weight = 1, anchor_weight = 0;
};

struct PassSums {
  double loss = 0;        // cross-entropy in nats
  double logit_norm = 0;  // L2 norms of the logits
  int64_t count = 0;      // rows with a target
  double anchor = 0;      // (s(h) - s_tgt)^2
  double scale = 0;       // s(h) at the final norm's input
  int64_t scale_count = 0;
};

enum class Activations { kFloat, kBF16 };

class Operands;

class FusedTransformer {
 public:
  FusedTransformer(const ModelConfig& config, Activations activations);
  ~FusedTransformer();

  PassSums run(const FusedParameters& parameters, const FusedBatch& batch,
               const PassOptions& options);

  // Working memory of a pass, in bytes; `tapered`: the model has norms that fold at gate 0.
  static int64_t memory_bytes(const ModelConfig& config, Activations activations, bool tapered,
                              int64_t batch, int64_t time, int threads);

  // Where the time of one thread goes, while not null.
  void set_profile(PassProfile* profile) { profile_ = profile; }

 private:
  struct Lane;

  void prepare(const FusedParameters& made, const PassOptions& options, size_t lanes);
  PassSums gather(const FusedParameters& parameters, const PassOptions& options, size_t lanes);

  ModelConfig config_;
  Activations activations_;
  PassProfile* profile_ = nullptr;
  std::unique_ptr<Operands> operands_;
  std::vector<Lane> lanes_;
};

}  // namespace taper
