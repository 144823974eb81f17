// taper generate: text from a prompt, piece by piece as it comes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/log.h"
#include "infer/generate.h"

namespace taper {
namespace {

struct Options {
  std::filesystem::path checkpoint;
  std::string prompt;
  GenerateOptions generate;
  double gate = -1;
  int threads = 0;
  bool special = false;
  bool json = false;
};

Json to_json(const Generation& generation, const Prompt& prompt) {
  return {{"text", generation.text},
          {"ids", generation.ids},
          {"prompt_tokens", prompt.ids.size()},
          {"new_tokens", generation.ids.size()},
          {"tokens_per_s", generation.tokens_per_s()},
          {"prefill_seconds", generation.prefill_seconds},
          {"finish_reason", to_string(generation.reason)}};
}

void run(const Options& options, bool has_gate) {
  options.generate.sampler.validate();
  Checkpoint checkpoint = Checkpoint::open(options.checkpoint);
  const auto tokenizer_path = checkpoint.tokenizer_path();
  if (!tokenizer_path) {
    throw FormatError(
        checkpoint.path().string() + ": has no tokenizer.json to read and write text with",
        "copy the tokenizer.json the model was trained with into the folder");
  }
  const auto tokenizer = load_tokenizer(*tokenizer_path);
  ModelOptions model_options;
  if (has_gate) model_options.gate = options.gate;
  const Model model(std::move(checkpoint), model_options);
  const Prompt prompt =
      make_prompt(model.config(), *tokenizer, options.prompt,
                  options.special ? SpecialTokens::kAllow : SpecialTokens::kAsText);
  ThreadPool pool(options.threads);
  Session session(
      model, pool,
      needed_capacity(model.config(), std::ssize(prompt.ids), options.generate.max_new_tokens));
  std::function<void(std::string_view)> on_text;
  if (!options.json) {
    on_text = [](std::string_view text) {
      print_text(text);
      flush_output();
    };
    on_text(options.prompt);
  }
  const Generation generation =
      generate(model, *tokenizer, session, prompt, options.generate, on_text);
  if (options.json) {
    print_json(to_json(generation, prompt));
  } else {
    print_text("\n");
    flush_output();
  }
  if (generation.reason == FinishReason::kContext) {
    log_warning(fmt::format("the text ends here because the model's context of {} tokens is full",
                            model.config().context));
  }
  if (generation.reason == FinishReason::kInterrupted) throw Interrupted("interrupted");
  log_info("{} tokens after a prompt of {}, {:.1f} tokens/s, ended by {}", generation.ids.size(),
           prompt.ids.size(), generation.tokens_per_s(), to_string(generation.reason));
}

}  // namespace

void setup_generate(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      add_command(parent, kUse, "generate", "continue a prompt with a model's own text");
  app.add_option("CKPT", options->checkpoint, "checkpoint folder, or a run: its latest checkpoint")
      ->type_name(kFolder)
      ->required();
  app.add_option("-p,--prompt", options->prompt,
                 "text to continue; empty: the beginning of a text");
  app.add_option("-n,--tokens", options->generate.max_new_tokens, "new tokens at most")
      ->check(CLI::NonNegativeNumber);
  SamplerOptions& sampler = options->generate.sampler;
  app.add_option("--temperature", sampler.temperature,
                 "0: always the most likely token; 1: the model's own distribution");
  app.add_option("--top-k", sampler.top_k, "choose among the k most likely tokens; 0: all");
  app.add_option("--top-p", sampler.top_p,
                 "choose among the most likely tokens that reach this probability; 1: all");
  app.add_option("--min-p", sampler.min_p,
                 "drop tokens less likely than this share of the most likely one; 0: none");
  app.add_option("--seed", sampler.seed, "the same seed gives the same text");
  app.add_option("--stop", options->generate.stop, "end before this text; may be given repeatedly")
      ->allow_extra_args(false);
  app.add_flag("--special", options->special, "let the prompt spell special tokens");
  auto* gate = app.add_option("--gate", options->gate, "run tapered norms at this gate, 0 to 1")
                   ->default_str("as saved");
  add_threads(app, options->threads);
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "Filters apply in the order temperature, top-k, top-p, min-p. The text ends at end-of-text, "
      "a\n"
      "stop string, the number of tokens, or the end of the model's context.\n\n"
      "Examples:\n"
      "  taper generate runs/demo/folded --prompt \"In the beginning\" -n 100\n"
      "  taper generate stories260K --temperature 0 --json");
  app.callback([options, gate] { run(*options, gate->count() > 0); });
}

}  // namespace taper
