// taper calibrate: the fixed scales of an untapered model, and what replacing each norm would cost.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/sample_options.h"
#include "infer/calibrate.h"

namespace taper {
namespace {

struct Options {
  std::filesystem::path checkpoint;
  SampleOptions sample{.size = {.window = 0, .max_tokens = 65536}};
  int threads = 0;
  bool json = false;
};

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const Calibration& calibration, const TokenSample& sample) {
  Json norms = Json::array();
  for (const NormCalibration& norm : calibration.norms) {
    norms.push_back(
        {{"name", norm.name},
         {"c", norm.scale},
         {"relative_error", norm.relative_error},
         {"c_without_first", optional_json(norm.scale_without_first)},
         {"relative_error_without_first", optional_json(norm.relative_error_without_first)},
         {"r_p1", norm.r_p1},
         {"r_median", norm.r_median},
         {"r_p99", norm.r_p99},
         {"r_max", norm.r_max}});
  }
  return {{"norms", std::move(norms)},
          {"s_tgt", calibration.anchor_target},
          {"tokens", calibration.tokens},
          {"data", sample.origin}};
}

std::string table(const Calibration& calibration, const TokenSample& sample) {
  std::string text = fmt::format("{:<40}{:>10}{:>8}{:>12}{:>8}   {}\n", "norm", "c", "error",
                                 "c, no pos 0", "error", "r: 1 % / median / 99 % / max");
  for (const NormCalibration& norm : calibration.norms) {
    text += fmt::format("{:<40}{:>10.4g}{:>8.3f}", norm.name, norm.scale, norm.relative_error);
    if (norm.scale_without_first) {
      text += fmt::format("{:>12.4g}{:>8.3f}", *norm.scale_without_first,
                          *norm.relative_error_without_first);
    } else {
      text += fmt::format("{:>12}{:>8}", "-", "-");
    }
    text += fmt::format("   {:.3g} / {:.3g} / {:.3g} / {:.3g}\n", norm.r_p1, norm.r_median,
                        norm.r_p99, norm.r_max);
  }
  return text + fmt::format("s_tgt {:.6g} over {} tokens of {}\n", calibration.anchor_target,
                            calibration.tokens, sample.origin);
}

void run(const Options& options) {
  Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
  const TokenSample sample = load_sample(checkpoint, options.sample);
  ThreadPool pool(options.threads);
  const Model model(std::move(checkpoint));
  const Calibration calibration = calibrate(model, pool, sample);
  if (options.json)
    print_json(to_json(calibration, sample));
  else
    print_text(table(calibration, sample));
}

}  // namespace

void setup_calibrate(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_command(parent, kRemoveNorms, "calibrate",
                              "measure fixed scales for the norms of an untapered model");
  app.add_option("CKPT", options->checkpoint, "checkpoint folder, or a run: its latest checkpoint")
      ->type_name(kFolder)
      ->required();
  auto* data =
      app.add_option("--data", options->sample.data, "token shard (.tok)")->type_name(kFile);
  app.add_option("--text", options->sample.text, "text file")->type_name(kFile)->excludes(data);
  app.add_option("--context", options->sample.size.window,
                 "tokens a sequence; 0: the model's context, at most 512");
  app.add_option("--tokens", options->sample.size.max_tokens, "tokens to use at most; 0: all");
  add_threads(app, options->threads);
  add_json(app, options->json);
  add_quiet(app);
  app.footer("Examples:\n  taper calibrate stories260K --text valid.txt");
  app.callback([options] { run(*options); });
}

}  // namespace taper
