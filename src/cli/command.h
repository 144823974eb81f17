// What the file of a command needs. Each command is one file cmd_<name>.cpp with
//
//   void setup_<name>(CLI::App& parent) {
//     auto options = std::make_shared<Options>();
//     CLI::App& app = add_command(parent, kInspect, "info", "say what a checkpoint is");
//     app.add_option("CKPT", options->checkpoint, "checkpoint folder")
//         ->required()
//         ->type_name(kFolder);
//     add_json(app, options->json);
//     add_quiet(app);
//     app.footer("Examples:\n  taper info runs/a/checkpoints/latest");
//     app.callback([options] { run(*options); });
//   }
//
// and its line in commands.h. The help page shows an option's default by itself (the variable's
// value when the option is added); its unit belongs into the text. A callback throws taper errors,
// which the program turns into a message and an exit code. Do not use CLI::ExistingFile and the
// like: the readers say more, and a bad file has its own exit code. Results go to stdout through
// output.h.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace taper {

// The groups of commands on the help page, in its order.
inline constexpr const char* kPrepare = "Prepare text";
inline constexpr const char* kTrain = "Train";
inline constexpr const char* kInspect = "Inspect";
inline constexpr const char* kRemoveNorms = "Remove norms";
inline constexpr const char* kUse = "Use";
inline constexpr const char* kHelp = "Help";

// The names of values that are paths, for type_name(): the shell completes them.
inline constexpr const char* kFile = "FILE";
inline constexpr const char* kFolder = "FOLDER";

// Adds a command below `parent`. `summary` is one line without a full stop.
CLI::App& add_command(CLI::App& parent, const std::string& group, const std::string& name,
                      const std::string& summary);

// A command of commands ("tokenizer train"): add those to the result, one of which must be given.
CLI::App& add_command_group(CLI::App& parent, const std::string& group, const std::string& name,
                            const std::string& summary);
CLI::App& add_subcommand(CLI::App& group, const std::string& name, const std::string& summary);

// --json: one JSON object on stdout and nothing else.
void add_json(CLI::App& app, bool& json);

// -q, --quiet: no progress and no information on stderr, warnings and errors stay.
void add_quiet(CLI::App& app);

// -j, --threads N: 0 takes one a core.
void add_threads(CLI::App& app, int& threads);

}  // namespace taper
