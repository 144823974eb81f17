// taper fold: tapered norms into the weights that read them, with proof.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/checkpoint_output.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/sample_options.h"
#include "infer/fold_checkpoint.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path checkpoint, out;
  SampleOptions sample{.size = {.window = 0, .max_tokens = 1024}};
  int threads = 0;
  bool force = false;
  bool json = false;
};

void run(const Options& options) {
  const Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
  require_writable_target(options.out, checkpoint.path(), options.force);
  const TokenSample sample = load_any_sample(checkpoint, options.sample);
  ThreadPool pool(options.threads);
  const FoldReport report = fold_checkpoint(checkpoint, options.out, options.force, sample, pool);
  const LogitComparison& logits = report.comparison;
  if (options.json) {
    print_json({{"norms_folded", report.norms_folded},
                {"norms_kept", report.norms_kept},
                {"max_abs_logit_diff", logits.max_abs_difference()},
                {"max_rel_logit_diff", logits.max_rel_difference()},
                {"rounding_noise", report.rounding_noise},
                {"tolerance", report.tolerance},
                {"tokens", logits.positions()},
                {"verified_on", sample.origin},
                {"out", options.out.string()}});
    return;
  }
  print_text(fmt::format(
      "{}: {} norms folded, {} kept\n"
      "logits differ by at most {:.2g} of their scale ({:.2g} absolute; allowed "
      "is {:.0e} of the scale)\nover {} tokens of {}\n",
      options.out.string(), report.norms_folded, report.norms_kept, logits.max_rel_difference(),
      logits.max_abs_difference(), kLogitTolerance, logits.positions(), sample.origin));
}

}  // namespace

void setup_fold(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_command(parent, kRemoveNorms, "fold",
                              "fold tapered norms into the weights and prove the result equal");
  app.add_option("CKPT", options->checkpoint,
                 "checkpoint at gate 0, or a run: its latest checkpoint")
      ->type_name(kFolder)
      ->required();
  app.add_option("OUT", options->out, "checkpoint folder to write")->type_name(kFolder)->required();
  auto* data = app.add_option("--verify-data", options->sample.data,
                              "token shard (.tok) to compare both models on")
                   ->type_name(kFile);
  app.add_option("--verify-text", options->sample.text, "text file to compare both models on")
      ->type_name(kFile)
      ->excludes(data);
  app.add_option("--verify-tokens", options->sample.size.max_tokens,
                 "tokens to compare at most; 0: all");
  add_threads(app, options->threads);
  app.add_flag("--force", options->force, "replace the checkpoint at OUT");
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "The folded model is kept only if its logits equal the tapered model's at gate 0 to\n"
      "rounding; otherwise nothing is written and the exit code is 4. Without --verify-data or\n"
      "--verify-text the models are compared on the held-out data that the training used, or on a\n"
      "built-in paragraph where that is not there.\n\n"
      "Examples:\n  taper fold runs/demo/taper folded --verify-data data/valid.tok");
  app.callback([options] { run(*options); });
}

}  // namespace taper
