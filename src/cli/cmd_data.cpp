// taper data prepare: text to token shards.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "text/prepare.h"

namespace taper {
namespace {

struct Options {
  PrepareOptions prepare;
  bool json = false;
};

void run(const Options& options) {
  const PrepareResult result = prepare_data(options.prepare);
  if (options.json) {
    print_json({{"train_tokens", result.train_tokens},
                {"valid_tokens", result.valid_tokens},
                {"train_documents", result.train_documents},
                {"valid_documents", result.valid_documents},
                {"bytes", result.bytes},
                {"vocab_size", result.vocab_size},
                {"out", options.prepare.out.string()}});
    return;
  }
  print_text(fmt::format("{}: {} tokens in {} documents to train on, {} in {} held out\n",
                         options.prepare.out.string(), result.train_tokens, result.train_documents,
                         result.valid_tokens, result.valid_documents));
}

}  // namespace

void setup_data(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  PrepareOptions& prepare = options->prepare;
  CLI::App& group = add_command_group(parent, kPrepare, "data", "turn text into token files");
  CLI::App& app = add_subcommand(group, "prepare", "write train.tok and valid.tok from text files");
  app.add_option("--tokenizer", prepare.tokenizer, "tokenizer.json")->type_name(kFile)->required();
  app.add_option("--input", prepare.inputs, "text files, or folders of .txt files")
      ->type_name(kFile)
      ->required();
  app.add_option("--out", prepare.out, "folder to write to")->type_name(kFolder)->required();
  CLI::Option* valid =
      app.add_option("--valid", prepare.valid, "text files to hold out")->type_name(kFile);
  app.add_option("--valid-fraction", prepare.valid_fraction,
                 "share of the input to hold out, in whole documents, 0 to 1")
      ->excludes(valid);
  app.add_option("--separator", prepare.separator, "what separates documents");
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "Examples:\n  taper data prepare --tokenizer tokenizer.json --input texts/ --out data "
      "--valid-fraction 0.02");
  app.callback([options] { run(*options); });
}

}  // namespace taper
