#include "train/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "ops/onednn.h"
#include "train/pass/training_pass.h"

namespace taper {

namespace {

void check_config_unchanged(const TrainingRun& run) {
  TrainConfig saved;
  ConfigSchema schema = train_schema(saved);
  schema.load_file(run.directory->config_path());
  // What may change between sittings without changing the numbers.
  const TrainConfig& config = run.config;
  saved.log = config.log;
  saved.train.valid_every = config.train.valid_every;
  saved.train.valid_windows = config.train.valid_windows;
  saved.train.checkpoint_every = config.train.checkpoint_every;
  saved.train.keep_checkpoints = config.train.keep_checkpoints;
  saved.train.threads = config.train.threads;
  saved.train.max_skipped_steps = config.train.max_skipped_steps;
  const std::string start = saved.data.start;
  saved.data = config.data;
  saved.data.start = start;
  TrainConfig now = config;
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
                  run.directory->config_path().string(), line_at(before, differs.first),
                  line_at(after, differs.second)),
      "resume with the same settings, or start a new run with another --out");
}

// The model to train: that of `init`, or a new one for the tokenizer.
ModelConfig model_of(const TrainConfig& config, const std::optional<Checkpoint>& init,
                     const Tokenizer& tokenizer) {
  if (!init) {
    ModelConfig model = model_config(config, tokenizer.vocab_size());
    // A vocabulary too small for the data is reported with the data.
    if (tokenizer.bos_id() < model.vocab_size) model.bos_id = tokenizer.bos_id();
    if (tokenizer.eos_id() < model.vocab_size) model.eos_id = tokenizer.eos_id();
    model.validate("model");
    return model;
  }
  if (!init->taper().tapered.empty())
    throw ConfigError(fmt::format("init.from: {} holds tapered norms", config.init.from),
                      "fold it first with `taper fold`, or go on with its own run by --resume");
  for (const NormSite& site : norm_sites(init->config()))
    if (in_scope(site, config.scope()) && init->norm_state(site) == NormState::kFolded)
      throw ConfigError(fmt::format("taper.scope is \"{}\", but {} is folded already in {}",
                                    config.taper.scope, site.name, config.init.from),
                        "set taper.scope = \"none\" to train the norm-free model on");
  return init->config();
}

void open_data(const ModelConfig& model, TrainingRun& run) {
  const TrainConfig& config = run.config;
  run.window = window_of(config, model);
  const auto open = [&](const std::string& path) {
    return std::make_unique<TokenShard>(
        open_shard(path, model.vocab_size, run.tokenizer.get(), run.window));
  };
  run.train_shard = open(config.data.train);
  run.valid_shard = open(config.data.valid);
  const WindowStart start = parse_window_start(config.data.start, "config");
  std::vector<int64_t> documents;
  if (start != WindowStart::kAnywhere)
    documents = document_starts(*run.train_shard, framing_of(*run.tokenizer));
  run.sampler = std::make_unique<WindowSampler>(*run.train_shard, run.window,
                                                static_cast<uint64_t>(config.train.seed), start,
                                                std::move(documents));
  run.valid_windows =
      std::make_unique<FixedWindows>(*run.valid_shard, run.window, config.train.valid_windows);
}

// Parameters, gradients and two moments in float; the pass; what the libraries take.
void require_memory(const ModelConfig& model, const TrainingRun& run) {
  constexpr double kLibraries = 0.1e9;
  const TrainConfig& config = run.config;
  const Architecture architecture(model);
  const int threads = run.threads->size();
  const auto parameters = static_cast<double>(architecture.num_parameters());
  const auto pass = static_cast<double>(
      TrainingPass<float>::memory_bytes(architecture, activations_of(config), config.tapers(),
                                        config.train.batch, run.window, threads));
  const double needed = 16 * parameters + pass + kLibraries;
  const auto available = static_cast<double>(available_memory());
  log_info("memory: about {:.1f} GB, {:.1f} of it for activations", needed / 1e9, pass / 1e9);
  if (needed > available)
    throw ResourceError(
        fmt::format("training needs about {:.1f} GB of memory, {:.1f} GB are available",
                    needed / 1e9, available / 1e9),
        fmt::format(
            "lower train.window (now {}) or train.threads (now {}), or choose a smaller model",
            run.window, threads));
}

void make_model(const ModelConfig& config, const std::vector<std::string>& folded,
                TrainingRun& run) {
  const TaperScope scope = run.config.scope();
  run.model = std::make_unique<ModelParameters<float>>(config, scope, folded);
  const auto& train = run.config.train;
  AdamWOptions options;
  options.beta1 = train.beta1;
  options.beta2 = train.beta2;
  options.eps = train.adam_eps;
  options.weight_decay = train.weight_decay;
  const ParameterLayout& layout = run.model->layout();
  const auto optimizer = [&](Range range) {
    return std::make_unique<AdamW>(*run.model, range, options, *run.threads);
  };
  run.weights = optimizer(layout.weights());
  run.gamma_t = optimizer(layout.gamma_t());

  TaperState& taper = run.taper;
  taper.scope = scope;
  taper.phase = run.config.tapers() ? "warmup" : "plain";
  taper.anchor = run.config.anchored();
  taper.anchor_weight = taper.anchor ? run.config.anchor.weight : 0;
  taper.ema_weight = run.config.taper.ema_weight;
  taper.calibration.resize(layout.norms().size());
  taper.folded = folded;
  if (!run.config.init.from.empty()) taper.source["init"] = run.config.init.from;
  taper.source["valid_data"] = run.config.data.valid;  // what `taper fold` verifies on
}

void resume(int64_t step, TrainingRun& run) {
  run.state = read_training_checkpoint(run.directory->checkpoint_path(step), *run.model, run.taper,
                                       *run.weights, *run.gamma_t);
  TAPER_CHECK(run.state.step == step);
  if (run.state.train_tokens != run.train_shard->size())
    throw ConfigError(fmt::format("{}: holds {} tokens, the run was started with {}",
                                  run.train_shard->path().string(), run.train_shard->size(),
                                  run.state.train_tokens),
                      "resume with the same data, or start a new run with another --out");
  run.taper.calibration.resize(run.model->layout().norms().size());
  log_info("resumed at step {} of {}", step, run.config.train.steps);
}

}  // namespace

Activations activations_of(const TrainConfig& config) {
  return config.train.dtype == "bf16" ? Activations::kBF16 : Activations::kFull;
}

TrainingRun open_run(const TrainConfig& config, const std::filesystem::path& path, bool resumes) {
  TrainingRun run;
  run.config = config;
  run.directory = std::make_unique<RunDirectory>(path);
  const std::optional<int64_t> latest = run.directory->latest();
  if (latest && !resumes)
    throw ConfigError(fmt::format("{}: holds a run already, at step {}", path.string(), *latest),
                      "go on with --resume, or choose another folder with --out");
  if (latest) check_config_unchanged(run);

  std::optional<Checkpoint> init;
  if (!config.init.from.empty()) init = Checkpoint::open(config.init.from);
  std::filesystem::path tokenizer_path = config.data.tokenizer;
  if (init && init->tokenizer_path()) tokenizer_path = *init->tokenizer_path();
  run.tokenizer = load_tokenizer(tokenizer_path);
  const ModelConfig model = model_of(config, init, *run.tokenizer);
  open_data(model, run);

  run.threads = std::make_unique<ThreadPool>(static_cast<int>(config.train.threads));
  require_memory(model, run);
  if (activations_of(config) == Activations::kBF16 && !onednn::has_fast_bf16())
    log_warning(
        "train.dtype is \"bf16\", but this CPU has no bf16 instructions: fp32 is faster here");
  make_model(model, init ? init->taper().folded : std::vector<std::string>{}, run);
  if (latest)
    resume(*latest, run);
  else if (init)
    run.model->load(*init);
  else
    run.model->initialize(config.init.std, config.init.scale_residual,
                          static_cast<uint64_t>(config.train.seed));
  run.state.train_tokens = run.train_shard->size();
  run.metrics = std::make_unique<MetricsFile>(run.directory->metrics_path(), run.state.step);
  TrainConfig resolved = config;
  write_file_atomically(run.directory->config_path(), train_schema(resolved).dump());
  return run;
}

}  // namespace taper
