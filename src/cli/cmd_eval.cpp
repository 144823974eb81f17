// taper eval: the loss of a model on held-out text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/log.h"
#include "infer/evaluate.h"

namespace taper {
namespace {

struct Options {
  std::filesystem::path checkpoint, data, text;
  int64_t context = 0;
  double gate = -1;
  int threads = 0;
  bool documents = false;
  bool json = false;
};

Sequences load_sequences(const Checkpoint& checkpoint, const Options& options) {
  const ModelConfig& config = checkpoint.config();
  const int64_t context = options.context == 0 ? config.context : options.context;
  const auto path = checkpoint.tokenizer_path();
  const auto tokenizer = path ? load_tokenizer(*path) : nullptr;
  if (!options.data.empty()) {
    if (!tokenizer) {
      log_warning(checkpoint.path().string() +
                  " has no tokenizer.json: whether the data fit this model is not checked");
    }
    return shard_windows(TokenShard(options.data), config, tokenizer.get(), context);
  }
  if (options.text.empty())
    throw ConfigError("no text to evaluate on", "give --data F.tok or --text F");
  if (!tokenizer) {
    throw FormatError(checkpoint.path().string() + ": has no tokenizer.json to read text with",
                      "give tokens with --data F.tok");
  }
  const MappedFile file(options.text);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const auto sequences = options.documents ? text_documents : text_windows;
  return sequences(text, options.text.string(), config, *tokenizer, context);
}

Json to_json(const Evaluation& e, double gate) {
  return {{"loss", e.loss},
          {"perplexity", e.perplexity},
          {"tokens", e.tokens},
          {"sequences", e.sequences},
          {"p50", e.p50},
          {"p95", e.p95},
          {"p99", e.p99},
          {"max", e.max},
          {"max_residual_norm", e.max_residual_norm},
          {"gate", gate}};
}

std::string to_text(const Evaluation& e, const Options& options) {
  return fmt::format(
      "loss {:.5f} nats per token, perplexity {:.3f}\n"
      "{} predictions in {} {}\n"
      "loss of one: median {:.4f}, 95 % {:.4f}, 99 % {:.4f}, largest {:.4f}\n"
      "largest norm of the residual stream {:.4g}\n",
      e.loss, e.perplexity, e.tokens, e.sequences, options.documents ? "documents" : "windows",
      e.p50, e.p95, e.p99, e.max, e.max_residual_norm);
}

void run(const Options& options, bool has_gate) {
  Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
  const Sequences sequences = load_sequences(checkpoint, options);
  ModelOptions model_options;
  if (has_gate) model_options.gate = options.gate;
  const Model model(std::move(checkpoint), model_options);
  ThreadPool pool(options.threads);
  const Evaluation evaluation = evaluate(model, pool, sequences);
  if (options.json)
    print_json(to_json(evaluation, model.gate()));
  else
    print_text(to_text(evaluation, options));
}

}  // namespace

void setup_eval(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      add_command(parent, kInspect, "eval", "measure the loss of a model on held-out text");
  app.add_option("CKPT", options->checkpoint, "checkpoint folder, or a run: its latest checkpoint")
      ->type_name(kFolder)
      ->required();
  auto* data = app.add_option("--data", options->data, "token shard (.tok)")->type_name(kFile);
  auto* text =
      app.add_option("--text", options->text, "text file")->type_name(kFile)->excludes(data);
  app.add_flag("--documents", options->documents,
               "score each document of the text on its own, cut at the context")
      ->needs(text);
  app.add_option("--context", options->context, "tokens a sequence; 0: the model's context")
      ->check(CLI::NonNegativeNumber);
  auto* gate = app.add_option("--gate", options->gate, "run tapered norms at this gate, 0 to 1")
                   ->default_str("as saved");
  add_threads(app, options->threads);
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "Without --documents the text is one stream, cut into windows as in training. Percentiles "
      "are\n"
      "of the mean losses of windows or documents.\n\n"
      "Examples:\n"
      "  taper eval runs/demo/taper --data data/valid.tok --gate 0\n"
      "  taper eval stories260K --text stories.txt --documents --context 512 --json");
  app.callback([options, gate] { run(*options, gate->count() > 0); });
}

}  // namespace taper
