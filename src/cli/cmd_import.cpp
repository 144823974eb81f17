// taper import: a foreign model as a checkpoint.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/checkpoint_output.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/file.h"
#include "formats/import.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path source, out, tokenizer;
  bool force = false;
  bool json = false;
};

void run(const Options& options) {
  require_writable_target(options.out, options.source, options.force);
  const ImportedModel model = import_model(options.source, options.tokenizer);
  AtomicDirectory directory(options.out, options.force);
  write_checkpoint_files(directory.path(), model.config, model.taper, model.tensors.views(),
                         model.tokenizer_json);
  directory.commit();

  const auto tensors = std::ssize(model.tensors.views());
  if (options.json) {
    print_json({{"format", model.format},
                {"tensors", tensors},
                {"bytes", model.tensors.num_bytes()},
                {"parameters", Architecture(model.config).num_parameters()},
                {"vocab_size", model.config.vocab_size},
                {"tokenizer", !model.tokenizer_json.empty()},
                {"out", options.out.string()}});
    return;
  }
  print_text(
      fmt::format("{}: {} model of {} parameters in {} tensors, {} bytes{}\n", options.out.string(),
                  model.format, Architecture(model.config).num_parameters(), tensors,
                  model.tensors.num_bytes(), model.tokenizer_json.empty() ? ", no tokenizer" : ""));
}

}  // namespace

void setup_import(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_command(parent, kInspect, "import", "turn a foreign model into a checkpoint");
  app.add_option("SRC", options->source,
                 "llama2.c v0 model (.bin), or a Hugging Face directory of the Llama family")
      ->type_name(kFile)
      ->required();
  app.add_option("OUT", options->out, "checkpoint folder to write")->type_name(kFolder)->required();
  app.add_option("--tokenizer", options->tokenizer,
                 "tokenizer.json or llama2.c tokenizer file, if it does not lie beside the model")
      ->type_name(kFile);
  app.add_flag("--force", options->force, "replace the checkpoint at OUT");
  add_json(app, options->json);
  add_quiet(app);
  app.footer("Examples:\n  taper import stories260K.bin stories260K --tokenizer tok512.bin");
  app.callback([options] { run(*options); });
}

}  // namespace taper
