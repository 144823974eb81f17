// The training run: warm-up and calibration, taper, settle (method.md, section 1), with validation,
// checkpoints and metrics. Step k of the schedules is the k-th update, counted from 0.
#pragma once

#include <cstdint>
#include <vector>

#include "train/pass/training_pass.h"
#include "train/training_run.h"

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
  explicit Trainer(TrainingRun run);

  // Trains to the last step. Interrupted: after writing a checkpoint. NumericsError: after
  // train.max_skipped_steps steps in a row without a finite gradient.
  TrainSummary run();

 private:
  struct StepResult {
    double loss, anchor_loss, gradient_norm, logit_norm, final_scale;
    bool skipped;
  };

  double gate(int64_t step) const;
  StepResult train_step();
  void calibrate(const std::vector<TaperNormSums>& norms, double final_scale);
  void begin_taper();
  void skip_step(StepResult& result);
  double validate(double gate);
  void validate_and_log();
  void save();
  void log_step(const StepResult& result);
  TrainSummary summary() const;
  int64_t tokens_per_step() const;

  TrainingRun run_;
  TrainingPass<float> pass_;
  int64_t saved_step_;           // last step with a checkpoint; -1: none
  int64_t validated_step_ = -1;  // last step with a validation
  double valid_loss_ = 0;
  double sitting_seconds_ = 0, sitting_tokens_ = 0;  // of this process, validation excluded
};

}  // namespace taper
