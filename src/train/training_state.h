// What a run needs, beside the model, to go on as if it had never stopped: train.json and
// train.safetensors of a checkpoint. Data order, schedules and initialisation are pure functions of
// the configuration and the step, so there is no other state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "model/checkpoint.h"
#include "train/optimizer.h"
#include "train/parameters.h"

namespace taper {

struct TrainingState {
  int64_t step = 0;  // optimizer steps done, skipped ones included
  int64_t skipped_steps = 0;
  int64_t skipped_in_a_row = 0;
  double smoothed_loss = 0;  // EMA of the training loss with weight 0.02, bias-corrected on reading
  int64_t smoothed_updates = 0;
  double best_loss = std::numeric_limits<double>::infinity();
  int64_t train_tokens = 0;  // size of the training shard
  double seconds = 0;        // spent training, over all sittings
};

// The files of a complete training checkpoint, into a folder that exists.
void write_training_checkpoint(const std::filesystem::path& folder,
                               const ModelParameters<float>& model, const TaperState& taper,
                               const std::string& tokenizer_json, const TrainingState& state,
                               const AdamW& weights, const AdamW& taper_weights);

// Restores everything from a checkpoint folder; `taper` receives the method's state.
TrainingState read_training_checkpoint(const std::filesystem::path& folder,
                                       ModelParameters<float>& model, TaperState& taper,
                                       AdamW& weights, AdamW& taper_weights);

}  // namespace taper
