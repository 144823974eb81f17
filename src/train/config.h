// The trainer's configuration: one tree, read from TOML, changed with --set, saved resolved in the
// run. The schema (train_schema) carries each key's documentation; `taper train --help-config`
// prints it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/config.h"
#include "model/config.h"
#include "model/norm_sites.h"
#include "taper/schedule.h"

namespace taper {

struct TrainConfig {
  struct Model {
    std::string preset = "llama";
    int64_t vocab_size = 0;  // 0: the tokenizer's
    int64_t width = 256;
    int64_t layers = 6;
    int64_t heads = 8;
    int64_t kv_heads = 0;   // 0: heads
    int64_t ffn_width = 0;  // 0: 8/3 width, rounded up to a multiple of 8
    int64_t context = 512;
    double rope_theta = 10000.0;
    double norm_eps = 1e-5;
    bool tied_head = true;
  } model;
  struct Init {
    std::string from;  // checkpoint to fine-tune; empty: random weights
    double std = 0.02;
    bool scale_residual = true;
  } init;
  struct Data {
    std::string train;      // train.tok
    std::string valid;      // valid.tok; empty: beside data.train
    std::string tokenizer;  // tokenizer.json; empty: beside data.train
    std::string start = "anywhere";
  } data;
  struct Train {
    int64_t steps = 2000;
    int64_t batch = 16;
    int64_t accumulate = 1;
    int64_t window = 0;  // 0: model.context
    double learning_rate = 3e-4;
    double min_learning_rate = 0;
    int64_t warmup = -1;  // -1: 5 % of the steps
    double beta1 = 0.9;
    double beta2 = 0.95;
    double adam_eps = 1e-8;
    double weight_decay = 0;
    double clip = 1.0;
    int64_t seed = 1;
    int64_t threads = 0;  // 0: one per core
    std::string dtype = "fp32";
    int64_t valid_every = 0;       // 0: a tenth of the steps
    int64_t valid_windows = 64;    // 0: all of them
    int64_t checkpoint_every = 0;  // 0: valid_every
    int64_t keep_checkpoints = 2;
    int64_t max_skipped_steps = 10;
  } train;
  struct Taper {
    std::string scope = "internal";
    int64_t start = -1;  // -1: the end of the warm-up
    int64_t end = -1;    // -1: the last step
    double ema_weight = 0.01;
    bool skip_first_position = false;
  } taper;
  struct Anchor {
    bool enabled = true;
    double weight = 0.1;
  } anchor;
  struct Log {
    int64_t every = 10;
  } log;

  TaperScope scope() const;
  bool tapers() const { return scope() != TaperScope::kNone; }
  bool anchored() const { return tapers() && anchor.enabled && anchor.weight > 0; }
  GateSchedule gate_schedule() const { return {taper.start, taper.end}; }
  double learning_rate(int64_t step) const;  // linear warm-up, cosine to min_learning_rate
};

// Binds every key to `config` with its documentation; defaults are the values in `config` now.
ConfigSchema train_schema(TrainConfig& config);

// Fills what depends on other keys (-1 and 0 defaults above, paths relative to the working folder)
// and checks every rule; ConfigError naming the key, the value and the allowed ones. `where` is the
// file's name.
void resolve(TrainConfig& config, const std::string& where);

// Tokens of a window; ConfigError when they exceed the model's context.
int64_t window_of(const TrainConfig& config, const ModelConfig& model);

// The model to initialise when init.from is empty. `vocab_size` is the tokenizer's.
ModelConfig model_config(const TrainConfig& config, int64_t vocab_size);

}  // namespace taper
