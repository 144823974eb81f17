#include "train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "train/data.h"

namespace taper {

namespace {

[[noreturn]] void reject(const std::string& where, const std::string& what,
                         const std::string& hint) {
  throw ConfigError(where + ": " + what, hint);
}

void require_at_least(const std::string& where, const char* key, int64_t value, int64_t least) {
  if (value < least)
    reject(where, fmt::format("{} is {}", key, value), fmt::format("use {} or more", least));
}

void require_between(const std::string& where, const char* key, double value, double low,
                     double high) {
  if (!(value >= low && value <= high))
    reject(where, fmt::format("{} is {}", key, value),
           fmt::format("use a number from {} to {}", low, high));
}

void resolve_schedules(TrainConfig& config, const std::string& where) {
  auto& train = config.train;
  auto& taper = config.taper;
  if (train.warmup < 0) train.warmup = std::max<int64_t>(1, train.steps / 20);
  if (train.warmup > train.steps)
    reject(where, fmt::format("train.warmup ({}) is longer than the run", train.warmup),
           fmt::format("train.steps is {}", train.steps));
  if (train.valid_every == 0) train.valid_every = std::max<int64_t>(1, train.steps / 10);
  if (train.checkpoint_every == 0) train.checkpoint_every = train.valid_every;
  if (!config.tapers()) {
    taper.start = taper.end = train.steps;
    return;
  }
  if (taper.start < 0) taper.start = train.warmup;
  if (taper.end < 0) taper.end = train.steps;
  if (taper.start == 0)
    reject(where, "taper.start is 0, so no statistics would exist to calibrate from",
           "the scales are measured while the gate is 1; start the taper at step 1 or later");
  if (taper.end <= taper.start)
    reject(where,
           fmt::format("taper.end ({}) lies before taper.start ({})", taper.end, taper.start),
           fmt::format("the gate falls from 1 to 0 between these steps; set taper.end to a step in "
                       "{}..{}, or remove it to use the last step",
                       taper.start + 1, train.steps));
  if (taper.end > train.steps)
    reject(where, fmt::format("taper.end ({}) lies after the last step", taper.end),
           fmt::format("train.steps is {}; a model is norm-free only once the gate is 0",
                       train.steps));
}

}  // namespace

TaperScope TrainConfig::scope() const { return parse_scope(taper.scope, "taper.scope"); }

double TrainConfig::learning_rate(int64_t step) const {
  const double peak = train.learning_rate, floor = train.min_learning_rate;
  if (step < train.warmup) return peak * double(step + 1) / double(train.warmup);
  const int64_t span = std::max<int64_t>(1, train.steps - train.warmup);
  const double progress = std::min(1.0, double(step - train.warmup) / double(span));
  return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

ConfigSchema train_schema(TrainConfig& c) {
  ConfigSchema s;
  s.section("model", "Shape of a new model. Ignored where init.from names a checkpoint.");
  s.add("model.preset", &c.model.preset, "Family: llama.");
  s.add("model.vocab_size", &c.model.vocab_size, "Rows of the embedding; 0: the tokenizer's size.");
  s.add("model.width", &c.model.width, "Width of the residual stream.");
  s.add("model.layers", &c.model.layers, "Number of blocks.");
  s.add("model.heads", &c.model.heads, "Attention heads; divides the width.");
  s.add("model.kv_heads", &c.model.kv_heads, "Key/value heads; divides model.heads. 0: as many.");
  s.add("model.ffn_width", &c.model.ffn_width,
        "Hidden width of SwiGLU. 0: 8/3 of the width, rounded up to a multiple of 8.");
  s.add("model.context", &c.model.context, "Longest sequence, in tokens.");
  s.add("model.rope_theta", &c.model.rope_theta, "Base of the rotary embedding.");
  s.add("model.norm_eps", &c.model.norm_eps, "eps inside the root of RMSNorm.");
  s.add("model.tied_head", &c.model.tied_head, "Share the head's weight with the embedding.");

  s.section("init", "Where the weights start.");
  s.add("init.from", &c.init.from, "Checkpoint to fine-tune; empty: random weights.");
  s.add("init.std", &c.init.std, "Standard deviation of the normal initialisation.");
  s.add("init.scale_residual", &c.init.scale_residual,
        "Divide the deviation of the two projections into the residual stream by sqrt(2 layers).");

  s.section("data", "Token shards, made by `taper data prepare`.");
  s.add("data.train", &c.data.train, "Training shard.");
  s.add("data.valid", &c.data.valid, "Validation shard; empty: valid.tok beside data.train.");
  s.add("data.tokenizer", &c.data.tokenizer,
        "Tokenizer saved with the checkpoints; empty: tokenizer.json beside data.train.");
  s.add("data.start", &c.data.start,
        "Where training windows begin: anywhere, document (at its start), or mixed (half each).");

  s.section("train", "The optimizer and its schedule.");
  s.add("train.steps", &c.train.steps, "Optimizer steps.");
  s.add("train.batch", &c.train.batch, "Windows in a micro-batch.");
  s.add("train.accumulate", &c.train.accumulate, "Micro-batches in an optimizer step.");
  s.add("train.window", &c.train.window, "Tokens in a window; 0: the model's context.");
  s.add("train.learning_rate", &c.train.learning_rate, "Peak learning rate of AdamW.");
  s.add("train.min_learning_rate", &c.train.min_learning_rate, "Where the cosine ends.");
  s.add("train.warmup", &c.train.warmup, "Steps of linear warm-up; -1: 5 % of train.steps.");
  s.add("train.beta1", &c.train.beta1, "AdamW's first-moment decay.");
  s.add("train.beta2", &c.train.beta2, "AdamW's second-moment decay.");
  s.add("train.adam_eps", &c.train.adam_eps, "AdamW's eps.");
  s.add("train.weight_decay", &c.train.weight_decay,
        "Decoupled weight decay of matrices; norm weights have none.");
  s.add("train.clip", &c.train.clip, "Largest global gradient norm; 0: no clipping.");
  s.add("train.seed", &c.train.seed, "Names the random streams of initialisation and data.");
  s.add("train.threads", &c.train.threads, "Threads; 0: one per core.");
  s.add("train.dtype", &c.train.dtype,
        "Type of the products' operands, fp32 or bf16; residual stream, statistics, "
        "loss, weights and gradients stay fp32.");
  s.add("train.valid_every", &c.train.valid_every,
        "Steps between validations; 0: a tenth of the steps.");
  s.add("train.valid_windows", &c.train.valid_windows,
        "Windows in a validation, spread evenly over the shard; 0: all.");
  s.add("train.checkpoint_every", &c.train.checkpoint_every,
        "Steps between checkpoints; 0: train.valid_every.");
  s.add("train.keep_checkpoints", &c.train.keep_checkpoints,
        "Newest checkpoints to keep, beside the best one.");
  s.add("train.max_skipped_steps", &c.train.max_skipped_steps,
        "Steps in a row with a non-finite gradient that end the run.");

  s.section("taper", "How the norms fade.");
  s.add("taper.scope", &c.taper.scope, "Norms to taper: none, internal, final, all.");
  s.add("taper.start", &c.taper.start, "First step with a gate below 1; -1: end of the warm-up.");
  s.add("taper.end", &c.taper.end, "First step with gate 0; -1: train.steps (the paper).");
  s.add("taper.ema_weight", &c.taper.ema_weight,
        "Weight m of the newest sample in the calibration averages.");
  s.add("taper.skip_first_position", &c.taper.skip_first_position,
        "Leave position 0 of each window out of the calibration (attention sinks).");

  s.section("anchor", "Keeps the scale of the final residual where calibration found it.");
  s.add("anchor.enabled", &c.anchor.enabled, "Add the anchor loss from taper.start on.");
  s.add("anchor.weight", &c.anchor.weight, "Its weight lambda.");

  s.section("log", "What is written while training.");
  s.add("log.every", &c.log.every, "Steps between rows of metrics.jsonl.");
  return s;
}

void resolve(TrainConfig& config, const std::string& where) {
  auto& data = config.data;
  auto& train = config.train;
  if (data.train.empty())
    reject(where, "data.train is not set", "name the train.tok that `taper data prepare` wrote");
  const auto beside = std::filesystem::path(data.train).parent_path();
  if (data.valid.empty()) data.valid = (beside / "valid.tok").string();
  if (data.tokenizer.empty()) data.tokenizer = (beside / "tokenizer.json").string();

  config.scope();
  require_at_least(where, "train.steps", train.steps, 1);
  require_at_least(where, "train.batch", train.batch, 1);
  require_at_least(where, "train.accumulate", train.accumulate, 1);
  require_at_least(where, "train.window", train.window, 0);
  require_at_least(where, "train.threads", train.threads, 0);
  require_at_least(where, "train.valid_every", train.valid_every, 0);
  require_at_least(where, "train.valid_windows", train.valid_windows, 0);
  require_at_least(where, "train.checkpoint_every", train.checkpoint_every, 0);
  require_at_least(where, "train.keep_checkpoints", train.keep_checkpoints, 1);
  require_at_least(where, "train.max_skipped_steps", train.max_skipped_steps, 1);
  require_at_least(where, "train.seed", train.seed, 0);
  require_at_least(where, "log.every", config.log.every, 1);
  require_between(where, "train.learning_rate", train.learning_rate, 0, 1);
  require_between(where, "train.min_learning_rate", train.min_learning_rate, 0,
                  train.learning_rate);
  require_between(where, "train.beta1", train.beta1, 0, 0.999999);
  require_between(where, "train.beta2", train.beta2, 0, 0.999999);
  require_between(where, "train.adam_eps", train.adam_eps, 1e-16, 1);
  require_between(where, "train.weight_decay", train.weight_decay, 0, 1);
  require_between(where, "train.clip", train.clip, 0, 1e9);
  require_between(where, "taper.ema_weight", config.taper.ema_weight, 1e-6, 1);
  require_between(where, "anchor.weight", config.anchor.weight, 0, 1e6);
  require_between(where, "init.std", config.init.std, 0, 10);
  parse_window_start(data.start, where);
  if (train.dtype != "fp32" && train.dtype != "bf16")
    reject(where, fmt::format("train.dtype is \"{}\"", train.dtype), "use \"fp32\" or \"bf16\"");
  resolve_schedules(config, where);
}

int64_t window_of(const TrainConfig& config, const ModelConfig& model) {
  const int64_t window = config.train.window == 0 ? model.context : config.train.window;
  if (window > model.context)
    throw ConfigError(
        fmt::format("train.window ({}) exceeds the model's context ({})", window, model.context),
        "lower train.window");
  return window;
}

ModelConfig model_config(const TrainConfig& config, int64_t vocab_size) {
  const auto& m = config.model;
  ModelConfig out;
  out.family = m.preset;
  out.vocab_size = m.vocab_size == 0 ? vocab_size : m.vocab_size;
  out.width = m.width;
  out.num_layers = m.layers;
  out.num_heads = m.heads;
  out.num_kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  out.head_width = m.heads > 0 ? m.width / m.heads : 0;
  out.ffn_width = m.ffn_width == 0 ? (m.width * 8 / 3 + 7) / 8 * 8 : m.ffn_width;
  out.context = m.context;
  out.rope_theta = m.rope_theta;
  out.norm_eps = m.norm_eps;
  out.tied_head = m.tied_head;
  return out;
}

}  // namespace taper
