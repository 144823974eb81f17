// taper train: from a configuration to a run directory.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/log.h"
#include "train/trainer.h"

namespace taper {

namespace {

struct Options {
  std::string config;
  std::vector<std::string> assignments;
  std::string out;
  bool resume = false;
  bool help_config = false;
  bool json = false;
};

// configs/tiny.toml -> runs/tiny
std::filesystem::path default_run(const std::string& config) {
  return std::filesystem::path("runs") / std::filesystem::path(config).stem();
}

void warn_about_ignored(const ConfigSchema& schema, const TrainConfig& config) {
  const auto warn = [&](const char* key, const std::string& reason) {
    if (schema.was_set(key)) log_warning(fmt::format("{} is ignored: {}", key, reason));
  };
  if (!config.init.from.empty())
    for (const char* key :
         {"model.preset", "model.vocab_size", "model.width", "model.layers", "model.heads",
          "model.kv_heads", "model.ffn_width", "model.context", "model.rope_theta",
          "model.norm_eps", "model.tied_head", "init.std", "init.scale_residual"})
      warn(key, "init.from names a checkpoint");
  if (!config.tapers())
    for (const char* key : {"taper.start", "taper.end", "taper.ema_weight",
                            "taper.skip_first_position", "anchor.enabled", "anchor.weight"})
      warn(key, "taper.scope is \"none\"");
}

void run(const Options& options) {
  TrainConfig config;
  ConfigSchema schema = train_schema(config);
  if (options.help_config) {
    print_text(schema.help());
    return;
  }
  if (options.config.empty())
    throw ConfigError("no configuration given", "taper train CONFIG.toml; see taper train --help");
  schema.load_file(options.config);
  for (const std::string& assignment : options.assignments) schema.set(assignment);
  resolve(config, options.config);
  warn_about_ignored(schema, config);

  const std::filesystem::path folder =
      options.out.empty() ? default_run(options.config) : std::filesystem::path(options.out);
  const TrainSummary summary = Trainer(open_run(config, folder, options.resume)).run();
  if (options.json) {
    print_json({{"step", summary.step},
                {"train_loss", summary.train_loss},
                {"valid_loss", summary.valid_loss},
                {"gate", summary.gate},
                {"tokens_per_s", summary.tokens_per_s},
                {"seconds", summary.seconds},
                {"parameters", summary.parameters},
                {"run", folder.string()}});
    return;
  }
  print_text(
      fmt::format("{}: {} steps, training loss {:.4f}, validation loss {:.4f} at gate {:.3g}, "
                  "{:.0f} tokens/s\n",
                  folder.string(), summary.step, summary.train_loss, summary.valid_loss,
                  summary.gate, summary.tokens_per_s));
}

}  // namespace

void setup_train(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      add_command(parent, kTrain, "train", "train or fine-tune a model, tapering its norms");
  app.add_option("CONFIG", options->config, "configuration, a TOML file")->type_name(kFile);
  app.add_option("--set", options->assignments, "change one key: section.key=value; repeatable")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--out", options->out, "run directory (default: runs/ and the name of CONFIG)")
      ->type_name(kFolder);
  app.add_flag("--resume", options->resume,
               "go on from the run's latest checkpoint; start when there is none");
  app.add_flag("--help-config", options->help_config, "list every key with its default");
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "The run directory holds config.toml (all keys resolved), metrics.jsonl and checkpoints/.\n"
      "Ctrl-C writes a checkpoint and ends; go on with the same command and --resume.\n\n"
      "Examples:\n"
      "  taper train configs/demo-taper.toml --out runs/taper\n"
      "  taper train my.toml --set train.steps=500 --set taper.scope=all --resume");
  app.callback([options] { run(*options); });
}

}  // namespace taper
