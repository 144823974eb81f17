// A model's weights in memory, ready to run: what a checkpoint says, in fp32, immutable.
//
// fp32 tensors are used where the checkpoint holds them, others are converted once. Each norm has
// the form that its state and the gate give it (norm_form). Thread-safe: any number of sessions may
// read one Model at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/taper_norm.h"
#include "model/checkpoint.h"

namespace taper {

// A bias-free linear layer: y = x W^T with W of shape [out, in], row-major. Does not own its
// weight.
struct Linear {
  const float* weight = nullptr;
  int64_t out = 0;
  int64_t in = 0;
};

struct Norm {
  NormSite site;
  NormForm form = NormForm::kIdentity;
  TaperNormArgs<float> args{};  // what the form does not read is null
};

struct Layer {
  Norm attention_norm;
  Linear q, k, v, o;
  Norm ffn_norm;
  Linear gate, up, down;
};

struct ModelOptions {
  // Runs tapered norms at this gate instead of the one the checkpoint was saved at. ConfigError
  // when it lies outside [0, 1] or when the checkpoint's norms cannot run at it (nothing tapered,
  // or folded).
  std::optional<double> gate;
};

class Model {
 public:
  // ShapeError or FormatError when the tensors do not fit the configuration.
  explicit Model(Checkpoint checkpoint, const ModelOptions& options = {});
  Model(Model&&) = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelConfig& config() const { return checkpoint_.config(); }
  double gate() const { return gate_; }  // g at which tapered norms run; 1 when there are none

  const float* embedding() const { return embedding_; }  // [V, D]
  const std::vector<Layer>& layers() const { return layers_; }
  const Norm& final_norm() const { return final_norm_; }
  const Linear& head() const { return head_; }  // its weight is embedding() when the head is tied

  // Bytes of weights that one decoded token reads: all linears and norms, one row of the embedding.
  int64_t weight_bytes_per_token() const;

 private:
  const float* load(const std::string& name, std::vector<int64_t> shape);
  Linear load_linear(const Part& part);
  Norm load_norm(const NormSite& site);
  Norm& norm_at(Place place);
  Linear& linear_at(Place place);

  Checkpoint checkpoint_;                  // keeps the tensors alive
  std::vector<std::vector<float>> owned_;  // converted tensors and multipliers
  double gate_ = 1;
  const float* embedding_ = nullptr;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Linear head_;
};

}  // namespace taper
