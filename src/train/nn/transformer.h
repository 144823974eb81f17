// The training graph of a pre-norm transformer (Llama family), tapered norms included.
//   H1 = H + Attn(N1 H),  H2 = H1 + MLP(N2 H1),  logits = N_final(H_L) W_out
// Everything about one forward pass that is not a weight is in ForwardOptions; everything the
// method changes once (c, gamma~) goes through begin_taper().
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "train/fused/transformer.h"
#include "train/nn/parameters.h"
#include "train/ops/ops.h"

namespace taper {

struct ForwardOptions {
  double gate = 1.0;
  bool calibrate = false;               // gather NormSums at the norms in scope (gate 1 only)
  bool skip_first_position = false;     // leave position 0 of each window out of all statistics
  std::optional<double> anchor_target;  // s_tgt: adds the anchor loss
};

// All sums are over the rows of the batch; the caller normalises once per optimizer step.
struct ForwardResult {
  torch::Tensor loss_sum;     // scalar: cross-entropy in nats
  torch::Tensor anchor_sum;   // scalar: (s(h) - s_tgt)^2; undefined without a target
  double loss_value = 0;      // loss_sum, accumulated in double
  double logit_norm_sum = 0;  // L2 norms of the logits
  int64_t count = 0;          // rows
  ops::ScaleSum scale;        // s(h) at the final norm's input
};

class Transformer {
 public:
  // Norms named in `folded` are identities. Weights are zero until initialize() or load().
  Transformer(const ModelConfig& config, TaperScope scope,
              const std::vector<std::string>& folded = {}, torch::Dtype dtype = torch::kFloat32);

  // Normal(0, std) matrices, the two projections into the residual stream divided by sqrt(2 layers)
  // when `scale_residual`; norm weights 1. Each tensor has its own random stream, named by (seed,
  // name).
  void initialize(double std, bool scale_residual, uint64_t seed);
  // Weights of a checkpoint; c and gamma~ too for norms it holds tapered.
  void load(const Checkpoint& checkpoint);

  // Freezes the scales and sets gamma~ := gamma (method.md, "at the taper start, once").
  void begin_taper(const std::map<std::string, double>& scales);
  bool taper_begun() const { return taper_begun_; }

  ForwardResult forward(const torch::Tensor& ids_BT, const torch::Tensor& targets_BT,
                        const ForwardOptions& options);
  // Logits [B, T, V] in full: for tests and small inputs.
  torch::Tensor logits(const torch::Tensor& ids_BT, double gate);

  // The parameters for the training pass (train/fused/transformer.h); with `calibrate`, norms in
  // scope gather sums for take_sums(). Valid while the model lives.
  FusedParameters fused_parameters(bool calibrate);

  const ModelConfig& config() const { return config_; }
  ParameterBuffer& parameters() { return parameters_; }
  // gamma~ of every norm in scope: a buffer of its own, since it enters the optimizer later.
  ParameterBuffer& taper_parameters() { return taper_parameters_; }
  // Calibration sums gathered since the last call, by norm name.
  std::map<std::string, ops::NormSums> take_sums();
  // Checkpoint tensors over the weights as they stand (valid while the model lives).
  std::vector<TensorView> tensor_views() const;
  std::vector<std::string> tapered_names() const;
  double scale_of(const std::string& norm) const;

 private:
  struct Norm {
    NormSite site;
    bool folded = false, in_scope = false;
    int64_t gamma = -1, gamma_t = -1;  // leaves of parameters_ and taper_parameters_
    float scale = 0;                   // c
    ops::NormSums sums;
  };
  struct Block {
    Norm attention_norm, ffn_norm;
    int64_t qkv, out, gate_up, down;
  };

  Norm add_norm(const NormSite& site, const std::vector<std::string>& folded, TaperScope scope);
  torch::Tensor apply(Norm& norm, const torch::Tensor& h, const ForwardOptions& options,
                      const torch::Tensor& mask);
  torch::Tensor residual_stream(const torch::Tensor& ids_BT, const ForwardOptions& options,
                                const torch::Tensor& mask);
  template <typename Visit>
  void for_each_norm(Visit visit);

  ModelConfig config_;
  ParameterBuffer parameters_, taper_parameters_;
  int64_t embedding_ = -1, head_ = -1;
  std::vector<Block> blocks_;
  Norm final_norm_;
  torch::Tensor rope_cos_, rope_sin_;
  bool taper_begun_ = false;
};

}  // namespace taper
