#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/timing.h"
#include "taper/calibration.h"

namespace taper {

namespace {

constexpr double kSmoothing = 0.02;

}  // namespace

Trainer::Trainer(TrainingRun run)
    : run_(std::move(run)),
      pass_(*run_.model, activations_of(run_.config), *run_.threads),
      saved_step_(run_.state.step > 0 ? run_.state.step : -1) {}

double Trainer::gate(int64_t step) const {
  return run_.config.tapers() ? run_.config.gate_schedule().gate(step) : 1.0;
}

int64_t Trainer::tokens_per_step() const {
  return run_.config.train.batch * run_.config.train.accumulate * run_.window;
}

void Trainer::begin_taper() {
  std::vector<double> scales(run_.model->layout().norms().size());
  Json norms = Json::array();
  for (const ParameterLayout::Norm& norm : run_.model->layout().norms()) {
    if (!norm.in_scope) continue;
    const auto index = static_cast<size_t>(norm.site.index);
    const NormAverages& averages = run_.taper.calibration[index];
    scales[index] = calibrated_scale(norm.site.name, averages.numerator, averages.denominator,
                                     run_.taper.ema_weight);
    norms.push_back({{"name", norm.site.name}, {"c", scales[index]}});
  }
  run_.taper.anchor_target = ema_mean(run_.taper.final_scale, run_.taper.ema_weight);
  run_.model->begin_taper(scales);
  run_.taper.tapered = run_.model->tapered_names();
  run_.metrics->append({{"kind", "calibration"},
                        {"step", run_.state.step},
                        {"norms", norms},
                        {"s_tgt", *run_.taper.anchor_target}});
}

void Trainer::calibrate(const std::vector<TaperNormSums>& norms, double final_scale) {
  for (const ParameterLayout::Norm& norm : run_.model->layout().norms()) {
    if (!norm.in_scope) continue;
    const auto index = static_cast<size_t>(norm.site.index);
    const TaperNormSums& sums = norms[index];
    TAPER_CHECK(sums.rows > 0);
    const auto rows = static_cast<double>(sums.rows);
    NormAverages& averages = run_.taper.calibration[index];
    ema_update(averages.numerator, run_.taper.ema_weight, sums.numerator / rows);
    ema_update(averages.denominator, run_.taper.ema_weight, sums.denominator / rows);
  }
  ema_update(run_.taper.final_scale, run_.taper.ema_weight, final_scale);
}

Trainer::StepResult Trainer::train_step() {
  const int64_t k = run_.state.step;
  const bool calibrating = run_.config.tapers() && k < run_.config.taper.start;
  if (run_.config.tapers() && !calibrating && !run_.model->taper_begun()) begin_taper();

  const auto num_tokens = static_cast<double>(tokens_per_step());
  PassOptions options;
  options.gate = gate(k);
  options.skip_first_position = run_.config.taper.skip_first_position;
  options.calibrate = calibrating;
  options.backward = true;
  options.loss_weight = 1 / num_tokens;
  // Rows that count in the statistics, over all micro-batches.
  const double scale_count =
      num_tokens * (options.skip_first_position ? 1 - 1 / static_cast<double>(run_.window) : 1);
  if (run_.config.anchored() && run_.model->taper_begun()) {
    options.anchor_target = run_.taper.anchor_target;
    options.anchor_weight = run_.config.anchor.weight / scale_count;
  }

  StepResult step{};
  PassSums total;
  for (int64_t micro = 0; micro < run_.config.train.accumulate; ++micro) {
    const int64_t index = k * run_.config.train.accumulate + micro;
    const Batch batch = run_.sampler->random(index, run_.config.train.batch);
    run_.sampler->prefetch(index + 1,
                           run_.config.train.batch);  // read from the disk during this pass
    total += pass_.run(batch.view(), options);
  }
  step.loss = total.loss / num_tokens;
  step.anchor_loss = options.anchor_weight * total.anchor;
  step.logit_norm = total.logit_norm / num_tokens;
  step.final_scale = total.scale / scale_count;

  double squared = run_.weights->squared_gradient_norm();
  if (run_.model->taper_begun()) squared += run_.gamma_t->squared_gradient_norm();
  step.gradient_norm = std::sqrt(squared);
  if (!std::isfinite(step.gradient_norm)) {
    skip_step(step);
  } else {
    run_.state.skipped_in_a_row = 0;
    if (calibrating) calibrate(total.norms, step.final_scale);
    const double clip = run_.config.train.clip;
    const double scale = clip > 0 && step.gradient_norm > clip ? clip / step.gradient_norm : 1.0;
    const double rate = run_.config.learning_rate(k);
    run_.weights->step(rate, scale);
    if (run_.model->taper_begun()) run_.gamma_t->step(rate, scale);
    run_.state.smoothed_loss += kSmoothing * (step.loss - run_.state.smoothed_loss);
    ++run_.state.smoothed_updates;
  }
  run_.model->clear_gradients(*run_.threads);
  ++run_.state.step;
  return step;
}

void Trainer::skip_step(StepResult& result) {
  result.skipped = true;
  std::string bad = run_.weights->first_bad_gradient();
  if (bad.empty()) bad = run_.gamma_t->first_bad_gradient();
  ++run_.state.skipped_steps;
  ++run_.state.skipped_in_a_row;
  run_.metrics->append({{"kind", "skipped"}, {"step", run_.state.step + 1}, {"parameter", bad}});
  log_warning(fmt::format("step {}: the gradient is not finite (first at {}); the step is skipped",
                          run_.state.step + 1, bad));
  if (run_.state.skipped_in_a_row >= run_.config.train.max_skipped_steps)
    throw NumericsError(
        fmt::format("step {}: {} steps in a row without a finite gradient (first at {})",
                    run_.state.step + 1, run_.state.skipped_in_a_row, bad),
        "the last checkpoint is good; resume from it with a lower train.learning_rate in a new "
        "run");
}

double Trainer::validate(double at_gate) {
  PassOptions options;
  options.gate = at_gate;
  double loss = 0, count = 0;
  for (int64_t begin = 0; begin < run_.valid_windows->size(); begin += run_.config.train.batch) {
    const Batch batch = run_.valid_windows->batch(begin, run_.config.train.batch);
    const PassSums sums = pass_.run(batch.view(), options);
    loss += sums.loss;
    count += static_cast<double>(sums.count);
  }
  return loss / count;
}

void Trainer::validate_and_log() {
  if (validated_step_ == run_.state.step) return;
  validated_step_ = run_.state.step;
  const double now = gate(run_.state.step);
  valid_loss_ = validate(now);
  Json row = {{"kind", "valid"}, {"step", run_.state.step}, {"loss", valid_loss_}, {"gate", now}};
  if (run_.model->taper_begun()) row["loss_g0"] = now == 0 ? valid_loss_ : validate(0);
  run_.metrics->append(row);
}

void Trainer::save() {
  if (saved_step_ == run_.state.step) return;
  run_.taper.gate = gate(run_.state.step);
  if (run_.config.tapers())
    run_.taper.phase = run_.model->taper_begun()
                           ? std::string(run_.config.gate_schedule().phase(run_.state.step))
                           : "warmup";
  AtomicDirectory folder(run_.directory->checkpoint_path(run_.state.step), /*replace=*/true);
  write_training_checkpoint(folder.path(), *run_.model, run_.taper, run_.tokenizer->json(),
                            run_.state, *run_.weights, *run_.gamma_t);
  folder.commit();
  run_.directory->set_latest(run_.state.step);
  saved_step_ = run_.state.step;
}

void Trainer::log_step(const StepResult& result) {
  const int64_t k = run_.state.step - 1;
  run_.metrics->append({{"kind", "train"},
                        {"step", run_.state.step},
                        {"loss", result.loss},
                        {"anchor_loss", result.anchor_loss},
                        {"gate", gate(k)},
                        {"lr", run_.config.learning_rate(k)},
                        {"grad_norm", result.gradient_norm},
                        {"logit_norm", result.logit_norm},
                        {"final_scale", result.final_scale},
                        {"tokens_per_s", sitting_tokens_ / std::max(sitting_seconds_, 1e-9)},
                        {"tokens", run_.state.step * tokens_per_step()},
                        {"seconds", run_.state.seconds}});
}

TrainSummary Trainer::summary() const {
  TrainSummary out;
  out.step = run_.state.step;
  out.train_loss =
      run_.state.smoothed_updates == 0
          ? 0
          : ema_mean({run_.state.smoothed_loss, run_.state.smoothed_updates}, kSmoothing);
  out.valid_loss = valid_loss_;
  out.gate = gate(run_.state.step);
  out.tokens_per_s = sitting_tokens_ / std::max(sitting_seconds_, 1e-9);
  out.seconds = run_.state.seconds;
  out.parameters = run_.model->architecture().num_parameters();
  return out;
}

TrainSummary Trainer::run() {
  const int64_t steps = run_.config.train.steps;
  if (run_.state.step == steps) {
    log_info("{} steps are done already", steps);
    validate_and_log();
    return summary();
  }
  log_info("training {} parameters for {} steps of {} tokens on {} threads",
           run_.model->architecture().num_parameters(), steps, tokens_per_step(),
           run_.threads->size());
  Progress progress("train", steps, "steps");
  while (run_.state.step < steps) {
    if (interrupted()) {
      save();
      throw Interrupted(
          fmt::format("interrupted at step {} of {}, checkpoint written", run_.state.step, steps),
          "go on with the same command and --resume");
    }
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = train_step();
    const double seconds = seconds_since(start);
    run_.state.seconds += seconds;
    sitting_seconds_ += seconds;
    sitting_tokens_ += static_cast<double>(tokens_per_step());

    const int64_t done = run_.state.step;
    const bool last = done == steps;
    if (!result.skipped && (done % run_.config.log.every == 0 || done == 1 || last))
      log_step(result);
    progress.update(done, fmt::format("loss {:.4f}  gate {:.3f}  {:.0f} tok/s", result.loss,
                                      gate(done), sitting_tokens_ / sitting_seconds_));
    const bool checkpoint = done % run_.config.train.checkpoint_every == 0 || last;
    if (checkpoint || done % run_.config.train.valid_every == 0) validate_and_log();
    if (checkpoint && (last || !result.skipped)) {
      const double now = gate(done);
      const bool comparable = !run_.config.tapers() || now == 0;
      const bool better = comparable && valid_loss_ < run_.state.best_loss;
      if (better) run_.state.best_loss = valid_loss_;
      save();
      if (better) run_.directory->set_best(done);
      run_.directory->prune(run_.config.train.keep_checkpoints);
    }
  }
  const TrainSummary out = summary();
  run_.metrics->append({{"kind", "end"},
                        {"step", out.step},
                        {"train_loss", out.train_loss},
                        {"valid_loss", out.valid_loss},
                        {"tokens_per_s", out.tokens_per_s},
                        {"seconds", out.seconds}});
  return out;
}

}  // namespace taper
