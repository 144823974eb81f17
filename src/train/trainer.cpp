#include "train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "core/timing.h"
#include "taper/calibration.h"
#include "train/fused/products.h"

namespace taper {

namespace {

constexpr double kSmoothing = 0.02;

}  // namespace

Trainer::Trainer(const TrainConfig& config, const std::filesystem::path& run, bool resume)
    : config_(config), run_(run) {
  if (config.train.threads > 0) at::set_num_threads(static_cast<int>(config.train.threads));
  if (run_.latest() && !resume)
    throw ConfigError(
        fmt::format("{}: holds a run already, at step {}", run.string(), *run_.latest()),
        "go on with --resume, or choose another folder with --out");
  if (run_.latest()) check_config_unchanged();

  std::optional<Checkpoint> init;
  if (!config.init.from.empty()) init = Checkpoint::open(config.init.from);
  std::filesystem::path tokenizer_path = config.data.tokenizer;
  if (init && init->tokenizer_path()) tokenizer_path = *init->tokenizer_path();
  tokenizer_ = load_tokenizer(tokenizer_path);

  ModelConfig model = init ? init->config() : model_config(config, tokenizer_->vocab_size());
  if (!init) {
    // A vocabulary too small for the data is reported with the data below.
    if (tokenizer_->bos_id() < model.vocab_size) model.bos_id = tokenizer_->bos_id();
    if (tokenizer_->eos_id() < model.vocab_size) model.eos_id = tokenizer_->eos_id();
    model.validate("model");
  }
  if (init && !init->taper().tapered.empty())
    throw ConfigError(fmt::format("init.from: {} holds tapered norms", config.init.from),
                      "fold it first with `taper fold`, or go on with its own run by --resume");
  window_ = config.train.window == 0 ? model.context : config.train.window;
  if (window_ > model.context)
    throw ConfigError(
        fmt::format("train.window ({}) exceeds the model's context ({})", window_, model.context),
        "lower train.window");
  const auto open = [&](const std::string& path) {
    return std::make_unique<TokenShard>(
        open_shard(path, model.vocab_size, tokenizer_.get(), window_));
  };
  train_shard_ = open(config.data.train);
  valid_shard_ = open(config.data.valid);
  const WindowStart start = parse_window_start(config.data.start, "config");
  std::vector<int64_t> documents;
  if (start != WindowStart::kAnywhere)
    documents = document_starts(*train_shard_, tokenizer_->bos_id(), tokenizer_->eos_id());
  sampler_ = std::make_unique<WindowSampler>(*train_shard_, window_,
                                             static_cast<uint64_t>(config.train.seed), start,
                                             std::move(documents));
  valid_windows_ =
      std::make_unique<FixedWindows>(*valid_shard_, window_, config.train.valid_windows);

  open_model(model, init ? init->taper().folded : std::vector<std::string>{});
  if (run_.latest()) {
    resume_latest();
  } else if (init) {
    model_->load(*init);
  } else {
    model_->initialize(config.init.std, config.init.scale_residual,
                       static_cast<uint64_t>(config.train.seed));
  }
  state_.train_tokens = train_shard_->size();
  metrics_ = std::make_unique<MetricsFile>(run_.metrics_path(), state_.step);
  TrainConfig resolved = config;
  write_file_atomically(run_.config_path(), train_schema(resolved).dump());
}

Trainer::~Trainer() = default;

void Trainer::open_model(const ModelConfig& config, const std::vector<std::string>& folded) {
  const TaperScope scope = config_.scope();
  for (const NormSite& site : norm_sites(config))
    if (in_scope(site, scope) && std::find(folded.begin(), folded.end(), site.name) != folded.end())
      throw ConfigError(fmt::format("taper.scope is \"{}\", but {} is folded already in {}",
                                    config_.taper.scope, site.name, config_.init.from),
                        "set taper.scope = \"none\" to train the norm-free model on");
  require_memory(config);
  if (activations() == Activations::kBF16 && !Products::has_fast_bf16())
    log_warning(
        "train.dtype is \"bf16\", but this CPU has no bf16 instructions: fp32 is faster here");
  model_ = std::make_unique<Transformer>(config, scope, folded);
  pass_ = std::make_unique<FusedTransformer>(config, activations());
  const auto& train = config_.train;
  const OptimizerOptions options{train.beta1, train.beta2, train.adam_eps, train.weight_decay};
  weights_ = std::make_unique<AdamW>(model_->parameters(), options);
  taper_weights_ = std::make_unique<AdamW>(model_->taper_parameters(), options);

  taper_.scope = scope;
  taper_.phase = config_.tapers() ? "warmup" : "plain";
  taper_.anchor = config_.anchored();
  taper_.anchor_weight = taper_.anchor ? config_.anchor.weight : 0;
  taper_.ema_weight = config_.taper.ema_weight;
  taper_.folded = folded;
  if (!config_.init.from.empty()) taper_.source["init"] = config_.init.from;
  taper_.source["valid_data"] = config_.data.valid;  // what `taper fold` verifies on
}

Activations Trainer::activations() const {
  return config_.train.dtype == "bf16" ? Activations::kBF16 : Activations::kFloat;
}

// Parameters, gradients and two moments in float; the pass; what the libraries take.
void Trainer::require_memory(const ModelConfig& config) const {
  constexpr double kLibraries = 0.3e9;
  const auto parameters = static_cast<double>(config.num_parameters());
  const auto pass = static_cast<double>(
      FusedTransformer::memory_bytes(config, activations(), config_.tapers(), config_.train.batch,
                                     window_, at::get_num_threads()));
  const double needed = 16 * parameters + pass + kLibraries;
  const auto available = static_cast<double>(available_memory());
  log_info("memory: about {:.1f} GB, {:.1f} of it for activations", needed / 1e9, pass / 1e9);
  if (needed > available)
    throw ResourceError(
        fmt::format("training needs about {:.1f} GB of memory, {:.1f} GB are available",
                    needed / 1e9, available / 1e9),
        fmt::format(
            "lower train.window (now {}) or train.threads (now {}), or choose a smaller model",
            window_, at::get_num_threads()));
}

void Trainer::check_config_unchanged() const {
  TrainConfig saved;
  ConfigSchema schema = train_schema(saved);
  schema.load_file(run_.config_path());
  // What may change between sittings without changing the numbers.
  saved.log = config_.log;
  saved.train.valid_every = config_.train.valid_every;
  saved.train.valid_windows = config_.train.valid_windows;
  saved.train.checkpoint_every = config_.train.checkpoint_every;
  saved.train.keep_checkpoints = config_.train.keep_checkpoints;
  saved.train.threads = config_.train.threads;
  saved.train.max_skipped_steps = config_.train.max_skipped_steps;
  const std::string start = saved.data.start;
  saved.data = config_.data;
  saved.data.start = start;
  TrainConfig now = config_;
  const std::string before = schema.dump(), after = train_schema(now).dump();
  if (before == after) return;
  const auto differs = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  const auto line_at = [](const std::string& text, std::string::const_iterator at) {
    const auto begin = text.rfind('\n', static_cast<size_t>(at - text.begin()));
    const size_t from = begin == std::string::npos ? 0 : begin + 1;
    return text.substr(from, text.find('\n', from) - from);
  };
  throw ConfigError(
      fmt::format("{}: the run was started with `{}`, the configuration now says `{}`",
                  run_.config_path().string(), line_at(before, differs.first),
                  line_at(after, differs.second)),
      "resume with the same settings, or start a new run with another --out");
}

void Trainer::resume_latest() {
  const int64_t step = *run_.latest();
  state_ = read_training_checkpoint(run_.checkpoint_path(step), *model_, taper_, *weights_,
                                    *taper_weights_);
  TAPER_CHECK(state_.step == step);
  if (state_.train_tokens != train_shard_->size())
    throw ConfigError(
        fmt::format("{}: holds {} tokens, the run was started with {}",
                    train_shard_->path().string(), train_shard_->size(), state_.train_tokens),
        "resume with the same data, or start a new run with another --out");
  saved_step_ = step;
  log_info("resumed at step {} of {}", step, config_.train.steps);
}

double Trainer::gate(int64_t step) const {
  return config_.tapers() ? config_.gate_schedule().gate(step) : 1.0;
}

int64_t Trainer::tokens_per_step() const {
  return config_.train.batch * config_.train.accumulate * window_;
}

void Trainer::begin_taper() {
  std::map<std::string, double> scales;
  Json norms = Json::array();
  for (const NormSite& site : norm_sites(model_->config())) {
    if (!in_scope(site, taper_.scope)) continue;
    const double scale = calibrated_scale(site.name, taper_.numerators[site.name],
                                          taper_.denominators[site.name], taper_.ema_weight);
    scales[site.name] = scale;
    norms.push_back({{"name", site.name}, {"c", scale}});
  }
  taper_.anchor_target = ema_mean(taper_.final_scale, taper_.ema_weight);
  model_->begin_taper(scales);
  taper_.tapered = model_->tapered_names();
  metrics_->append({{"kind", "calibration"},
                    {"step", state_.step},
                    {"norms", norms},
                    {"s_tgt", *taper_.anchor_target}});
}

void Trainer::calibrate(double final_scale) {
  for (const auto& [name, sums] : model_->take_sums()) {
    TAPER_CHECK(sums.rows > 0);
    const auto rows = static_cast<double>(sums.rows);
    ema_update(taper_.numerators[name], taper_.ema_weight, sums.numerator / rows);
    ema_update(taper_.denominators[name], taper_.ema_weight, sums.denominator / rows);
  }
  ema_update(taper_.final_scale, taper_.ema_weight, final_scale);
}

Trainer::StepResult Trainer::train_step() {
  const int64_t k = state_.step;
  const bool calibrating = config_.tapers() && k < config_.taper.start;
  if (config_.tapers() && !calibrating && !model_->taper_begun()) begin_taper();

  const auto num_tokens = static_cast<double>(tokens_per_step());
  PassOptions options;
  options.gate = gate(k);
  options.skip_first_position = config_.taper.skip_first_position;
  options.backward = true;
  options.loss_weight = 1 / num_tokens;
  // Rows that count in the statistics, over all micro-batches.
  const double scale_count =
      num_tokens * (options.skip_first_position ? 1 - 1 / static_cast<double>(window_) : 1);
  if (config_.anchored() && model_->taper_begun()) {
    options.anchor_target = taper_.anchor_target;
    options.anchor_weight = config_.anchor.weight / scale_count;
  }

  StepResult step{};
  for (int64_t micro = 0; micro < config_.train.accumulate; ++micro) {
    const int64_t index = k * config_.train.accumulate + micro;
    const Batch batch = sampler_->random(index, config_.train.batch);
    sampler_->prefetch(index + 1, config_.train.batch);  // read from the disk during this pass
    const PassSums sums = pass(batch, options, calibrating);
    step.loss += sums.loss / num_tokens;
    step.anchor_loss += options.anchor_weight * sums.anchor;
    step.logit_norm += sums.logit_norm / num_tokens;
    step.final_scale += sums.scale / scale_count;
  }

  double squared = weights_->squared_gradient_norm();
  if (model_->taper_begun()) squared += taper_weights_->squared_gradient_norm();
  step.gradient_norm = std::sqrt(squared);
  if (!std::isfinite(step.gradient_norm)) {
    skip_step(step);
  } else {
    state_.skipped_in_a_row = 0;
    if (calibrating) calibrate(step.final_scale);
    const double clip = config_.train.clip;
    const double scale = clip > 0 && step.gradient_norm > clip ? clip / step.gradient_norm : 1.0;
    const double rate = config_.learning_rate(k);
    weights_->step(rate, scale);
    if (model_->taper_begun()) taper_weights_->step(rate, scale);
    state_.smoothed_loss += kSmoothing * (step.loss - state_.smoothed_loss);
    ++state_.smoothed_updates;
  }
  weights_->clear_gradients();
  taper_weights_->clear_gradients();
  ++state_.step;
  return step;
}

void Trainer::skip_step(StepResult& result) {
  result.skipped = true;
  model_->take_sums();
  std::string bad = weights_->first_bad_gradient();
  if (bad.empty()) bad = taper_weights_->first_bad_gradient();
  ++state_.skipped_steps;
  ++state_.skipped_in_a_row;
  metrics_->append({{"kind", "skipped"}, {"step", state_.step + 1}, {"parameter", bad}});
  log_warning(fmt::format("step {}: the gradient is not finite (first at {}); the step is skipped",
                          state_.step + 1, bad));
  if (state_.skipped_in_a_row >= config_.train.max_skipped_steps)
    throw NumericsError(
        fmt::format("step {}: {} steps in a row without a finite gradient (first at {})",
                    state_.step + 1, state_.skipped_in_a_row, bad),
        "the last checkpoint is good; resume from it with a lower train.learning_rate in a new "
        "run");
}

PassSums Trainer::pass(const Batch& batch, const PassOptions& options, bool calibrate) {
  return pass_->run(model_->fused_parameters(calibrate),
                    {batch.inputs.data_ptr<int64_t>(), batch.targets.data_ptr<int64_t>(),
                     batch.inputs.size(0), batch.inputs.size(1)},
                    options);
}

double Trainer::validate(double at_gate) {
  PassOptions options;
  options.gate = at_gate;
  double loss = 0, count = 0;
  for (int64_t begin = 0; begin < valid_windows_->size(); begin += config_.train.batch) {
    const Batch batch = valid_windows_->batch(begin, config_.train.batch);
    const PassSums sums = pass(batch, options);
    loss += sums.loss;
    count += static_cast<double>(sums.count);
  }
  return loss / count;
}

void Trainer::validate_and_log() {
  if (validated_step_ == state_.step) return;
  validated_step_ = state_.step;
  const double now = gate(state_.step);
  valid_loss_ = validate(now);
  Json row = {{"kind", "valid"}, {"step", state_.step}, {"loss", valid_loss_}, {"gate", now}};
  if (model_->taper_begun()) row["loss_g0"] = now == 0 ? valid_loss_ : validate(0);
  metrics_->append(row);
}

void Trainer::save() {
  if (saved_step_ == state_.step) return;
  taper_.gate = gate(state_.step);
  if (config_.tapers())
    taper_.phase =
        model_->taper_begun() ? std::string(config_.gate_schedule().phase(state_.step)) : "warmup";
  AtomicDirectory folder(run_.checkpoint_path(state_.step), /*replace=*/true);
  write_training_checkpoint(folder.path(), *model_, taper_, tokenizer_->json(), state_, *weights_,
                            *taper_weights_);
  folder.commit();
  run_.set_latest(state_.step);
  saved_step_ = state_.step;
}

void Trainer::log_step(const StepResult& result) {
  const int64_t k = state_.step - 1;
  metrics_->append({{"kind", "train"},
                    {"step", state_.step},
                    {"loss", result.loss},
                    {"anchor_loss", result.anchor_loss},
                    {"gate", gate(k)},
                    {"lr", config_.learning_rate(k)},
                    {"grad_norm", result.gradient_norm},
                    {"logit_norm", result.logit_norm},
                    {"final_scale", result.final_scale},
                    {"tokens_per_s", sitting_tokens_ / std::max(sitting_seconds_, 1e-9)},
                    {"tokens", state_.step * tokens_per_step()},
                    {"seconds", state_.seconds}});
}

TrainSummary Trainer::summary() const {
  TrainSummary out;
  out.step = state_.step;
  out.train_loss = state_.smoothed_updates == 0
                       ? 0
                       : ema_mean({state_.smoothed_loss, state_.smoothed_updates}, kSmoothing);
  out.valid_loss = valid_loss_;
  out.gate = gate(state_.step);
  out.tokens_per_s = sitting_tokens_ / std::max(sitting_seconds_, 1e-9);
  out.seconds = state_.seconds;
  out.parameters = model_->config().num_parameters();
  return out;
}

TrainSummary Trainer::run() {
  const int64_t steps = config_.train.steps;
  if (state_.step == steps) {
    log_info("{} steps are done already", steps);
    validate_and_log();
    return summary();
  }
  log_info("training {} parameters for {} steps of {} tokens on {} threads",
           model_->config().num_parameters(), steps, tokens_per_step(), at::get_num_threads());
  Progress progress("train", steps, "steps");
  while (state_.step < steps) {
    if (interrupted()) {
      save();
      throw Interrupted(
          fmt::format("interrupted at step {} of {}, checkpoint written", state_.step, steps),
          "go on with the same command and --resume");
    }
    const auto start = std::chrono::steady_clock::now();
    const StepResult result = train_step();
    const double seconds = seconds_since(start);
    state_.seconds += seconds;
    sitting_seconds_ += seconds;
    sitting_tokens_ += static_cast<double>(tokens_per_step());

    const int64_t done = state_.step;
    const bool last = done == steps;
    if (!result.skipped && (done % config_.log.every == 0 || done == 1 || last)) log_step(result);
    progress.update(done, fmt::format("loss {:.4f}  gate {:.3f}  {:.0f} tok/s", result.loss,
                                      gate(done), sitting_tokens_ / sitting_seconds_));
    const bool checkpoint = done % config_.train.checkpoint_every == 0 || last;
    if (checkpoint || done % config_.train.valid_every == 0) validate_and_log();
    if (checkpoint && (last || !result.skipped)) {
      const double now = gate(done);
      const bool comparable = !config_.tapers() || now == 0;
      const bool better = comparable && valid_loss_ < state_.best_loss;
      if (better) state_.best_loss = valid_loss_;
      save();
      if (better) run_.set_best(done);
      run_.prune(config_.train.keep_checkpoints);
    }
  }
  const TrainSummary out = summary();
  metrics_->append({{"kind", "end"},
                    {"step", out.step},
                    {"train_loss", out.train_loss},
                    {"valid_loss", out.valid_loss},
                    {"tokens_per_s", out.tokens_per_s},
                    {"seconds", out.seconds}});
  return out;
}

}  // namespace taper
