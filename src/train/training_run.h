// A training run, opened: everything it works on, checked against everything before the first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/parallel.h"
#include "io/token_shard.h"
#include "text/tokenizer.h"
#include "train/config.h"
#include "train/data.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/parameters.h"
#include "train/pass/lane.h"
#include "train/run_directory.h"
#include "train/training_state.h"

namespace taper {

struct TrainingRun {
  TrainConfig config;  // resolved
  int64_t window = 0;  // tokens
  std::unique_ptr<RunDirectory> directory;
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenShard> train_shard, valid_shard;
  std::unique_ptr<WindowSampler> sampler;       // of train_shard
  std::unique_ptr<FixedWindows> valid_windows;  // of valid_shard
  std::unique_ptr<ModelParameters<float>> model;
  std::unique_ptr<AdamW> weights, gamma_t;
  std::unique_ptr<MetricsFile> metrics;
  TaperState taper;
  TrainingState state;
};

// Opens a run in the folder `path`, which is made where needed. `config` is resolved. With
// `resume`, at its latest checkpoint (at the start when there is none); without, a folder that
// holds a run is a ConfigError. Other errors: those of everything it opens; ResourceError when the
// memory does not suffice, or threads cannot be started.
TrainingRun open_run(const TrainConfig& config, const std::filesystem::path& path, bool resume);

Activations activations_of(const TrainConfig& config);

}  // namespace taper
