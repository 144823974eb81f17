// Small random models as checkpoints: odd widths, grouped heads with num_heads / num_kv_heads !=
// num_kv_heads, no weight 0 or 1 by construction.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "core/random.h"
#include "model/checkpoint.h"
#include "model/tensor_set.h"

namespace taper::test {

struct RandomModel {
  ModelConfig config;
  TaperState taper;
  TensorSet tensors;

  void write(const std::filesystem::path& directory, const std::string& tokenizer = "") const {
    std::filesystem::create_directories(directory);
    write_checkpoint_files(directory, config, taper, tensors.views(), tokenizer);
  }
};

inline ModelConfig random_config(uint64_t seed, bool tied) {
  Random random(seed, 1);
  const auto between = [&](uint64_t low, uint64_t high) {
    return static_cast<int64_t>(low + random.below(high - low + 1));
  };
  ModelConfig config;
  config.num_kv_heads = between(1, 3);
  config.num_heads = config.num_kv_heads * (config.num_kv_heads + 1);  // ratio != kv heads
  config.head_width = 2 * between(1, 4);
  config.width = 2 * between(8, 20) + 1;
  if (config.width / config.num_heads == config.head_width) config.head_width += 2;
  config.ffn_width = between(5, 40);
  config.num_layers = between(1, 3);
  config.vocab_size = between(11, 50);
  config.context = between(16, 40);
  config.rope_theta = 100.0 + 1000 * random.uniform();
  config.norm_eps = 1e-6 * (1 + random.uniform());
  config.tied_head = tied;
  config.bos_id = 1;
  config.eos_id = between(2, 10);
  return config;
}

// Weights of standard deviation 1/sqrt(width), norms and scales in 0.5..1.5.
inline void fill_random(const ModelConfig& config, const TaperState& taper, uint64_t seed,
                        TensorSet& tensors) {
  Random random(seed, 2);
  for (const TensorSpec& spec : expected_tensors(config, taper)) {
    const bool matrix = spec.shape.size() == 2;
    const double deviation = matrix ? 1.0 / std::sqrt(static_cast<double>(spec.shape[1])) : 0;
    for (float& value : tensors.add(spec.name, spec.shape))
      value = static_cast<float>(matrix ? deviation * random.normal() : 0.5 + random.uniform());
  }
}

// A model whose norms in `scope` are tapered, standing at `gate`; scope kNone: a plain one.
inline RandomModel random_model(uint64_t seed, TaperScope scope, bool tied, double gate = 0) {
  RandomModel model;
  model.config = random_config(seed, tied);
  model.taper.scope = scope;
  for (const NormSite& site : norm_sites(model.config))
    if (in_scope(site, scope)) model.taper.tapered.push_back(site.name);
  model.taper.phase = scope == TaperScope::kNone ? "plain" : gate == 0 ? "settle" : "taper";
  model.taper.gate = scope == TaperScope::kNone ? 1 : gate;
  fill_random(model.config, model.taper, seed, model.tensors);
  return model;
}

}  // namespace taper::test
