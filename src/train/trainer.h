// The training run: warm-up and calibration, taper, settle (method.md, section 1), with validation,
// checkpoints and metrics. Step k of the schedules is the k-th update, counted from 0.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "io/token_shard.h"
#include "text/tokenizer.h"
#include "train/config.h"
#include "train/data.h"
#include "train/fused/transformer.h"
#include "train/metrics.h"
#include "train/nn/transformer.h"
#include "train/optimizer.h"
#include "train/run_directory.h"
#include "train/training_state.h"

namespace taper {

struct TrainSummary {
  int64_t step = 0;
  double train_loss = 0;  // moving average over about 50 steps
  double valid_loss = 0;  // at the final gate
  double gate = 1;
  double tokens_per_s = 0;
  double seconds = 0;  // over all sittings
  int64_t parameters = 0;
};

class Trainer {
 public:
  // Opens everything and checks it against everything before the first step. `config` is resolved.
  // With `resume`, goes on from the run's latest checkpoint (from the start when there is none).
  Trainer(const TrainConfig& config, const std::filesystem::path& run, bool resume);
  ~Trainer();

  // Trains to the last step. Interrupted: after writing a checkpoint. NumericsError: after
  // train.max_skipped_steps steps in a row without a finite gradient.
  TrainSummary run();

  int64_t step() const { return state_.step; }
  Transformer& model() { return *model_; }

 private:
  struct StepResult {
    double loss, anchor_loss, gradient_norm, logit_norm, final_scale;
    bool skipped;
  };

  void open_model(const ModelConfig& config, const std::vector<std::string>& folded);
  void require_memory(const ModelConfig& config) const;
  void resume_latest();
  void check_config_unchanged() const;
  double gate(int64_t step) const;
  StepResult train_step();
  void calibrate(double final_scale);
  void begin_taper();
  void skip_step(StepResult& result);
  Activations activations() const;
  PassSums pass(const Batch& batch, const PassOptions& options, bool calibrate = false);
  double validate(double gate);
  void validate_and_log();
  void save();
  void log_step(const StepResult& result);
  TrainSummary summary() const;
  int64_t tokens_per_step() const;

  TrainConfig config_;
  RunDirectory run_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TokenShard> train_shard_, valid_shard_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<FusedTransformer> pass_;
  std::unique_ptr<AdamW> weights_, taper_weights_;
  std::unique_ptr<WindowSampler> sampler_;
  std::unique_ptr<FixedWindows> valid_windows_;
  std::unique_ptr<MetricsFile> metrics_;
  TaperState taper_;
  TrainingState state_;
  int64_t window_ = 0;
  int64_t saved_step_ = -1;      // last step with a checkpoint
  int64_t validated_step_ = -1;  // last step with a validation
  double valid_loss_ = 0;
  double sitting_seconds_ = 0, sitting_tokens_ = 0;  // of this process, validation excluded
};

}  // namespace taper
