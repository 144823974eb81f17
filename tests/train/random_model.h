// Tiny random models for the tests of the training graph: no weight is 0 or 1 by construction.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <map>
#include <string>

#include "core/random.h"
#include "train/nn/transformer.h"

namespace taper::test {

// Grouped heads with num_heads / num_kv_heads != num_kv_heads, odd hidden width.
inline ModelConfig tiny_config(bool tied = true) {
  ModelConfig config;
  config.vocab_size = 23;
  config.width = 24;
  config.num_layers = 2;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_width = 4;
  config.ffn_width = 29;
  config.context = 16;
  config.tied_head = tied;
  return config;
}

inline void randomize(ParameterBuffer& parameters, uint64_t seed) {
  torch::NoGradGuard no_grad;
  Random random(seed, 99);
  for (const auto& slice : parameters.slices()) {
    torch::Tensor draws = torch::empty(slice.spec.shape, torch::kFloat64);
    double* out = draws.data_ptr<double>();
    const bool vector = slice.spec.shape.size() == 1;
    for (int64_t i = 0; i < slice.size(); ++i)
      out[i] = vector ? 0.7 + 0.6 * random.uniform() : 0.3 * random.normal();
    parameters.value(slice).copy_(draws);
  }
}

inline torch::Tensor random_ids(int64_t batch, int64_t time, int64_t vocab, uint64_t seed) {
  torch::Tensor ids = torch::empty({batch, time}, torch::kInt64);
  Random random(seed, 7);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.below(static_cast<uint64_t>(vocab)));
  return ids;
}

// A model in mid-taper: random weights, gamma~ unlike gamma, scales unlike each other.
inline Transformer tapered_model(const ModelConfig& config, TaperScope scope, torch::Dtype dtype,
                                 uint64_t seed = 5) {
  Transformer model(config, scope, {}, dtype);
  randomize(model.parameters(), seed);
  std::map<std::string, double> scales;
  double scale = 0.6;
  for (const NormSite& site : norm_sites(config))
    if (in_scope(site, scope)) scales[site.name] = (scale += 0.07);
  model.begin_taper(scales);
  randomize(model.taper_parameters(), seed + 1);
  return model;
}

}  // namespace taper::test
