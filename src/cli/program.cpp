#include "cli/program.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>
#include <vector>

#include "cli/command_tree.h"
#include "cli/help.h"
#include "cli/output.h"
#include "core/denormals.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/nearest.h"
#include "core/version.h"

namespace taper {
namespace {

int report(ExitCode code, const std::string& what, const std::string& hint) {
  std::string text = fmt::format("error: {}\n", what);
  if (!hint.empty()) text += fmt::format("  {}\n", hint);
  std::fflush(stdout);  // what was printed so far comes first where both go to one terminal
  std::fwrite(text.data(), 1, text.size(), stderr);
  return static_cast<int>(code);
}

// The command the arguments reached: "taper tokenizer train".
CommandInfo reached(const CLI::App& root) {
  const CLI::App* app = &root;
  std::string path = root.get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().back();
    path += " " + app->get_name();
  }
  return describe(*app, path);
}

std::vector<std::string> command_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const CommandInfo& below : command.commands) names.push_back(below.name);
  return names;
}

std::vector<std::string> flag_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const OptionInfo& option : command.options) {
    names.insert(names.end(), option.long_names.begin(), option.long_names.end());
    names.insert(names.end(), option.short_names.begin(), option.short_names.end());
  }
  return names;
}

// The error for an argument that no option or command took.
ConfigError unexpected_argument(const CommandInfo& command,
                                const std::vector<std::string>& extras) {
  const std::string& name = command.path;
  std::string argument = extras.front();
  for (const std::string& extra : extras) {
    if (extra.size() > 1 && extra.front() == '-') {
      argument = extra.substr(0, extra.find('='));
      break;
    }
  }
  const bool is_flag = argument.front() == '-' && argument.size() > 1;
  const std::vector<std::string> commands = command_names(command);
  const bool is_command = !is_flag && !commands.empty();
  const std::string nearest = nearest_name(argument, is_flag ? flag_names(command) : commands);
  const std::string hint = nearest.empty() ? fmt::format("see: {} --help", name)
                                           : fmt::format("did you mean {}?", nearest);
  if (is_flag) return ConfigError(fmt::format("{} has no option {}", name, argument), hint);
  if (is_command) return ConfigError(fmt::format("{} has no command {}", name, argument), hint);
  return ConfigError(fmt::format("{} does not expect the argument {}", name, argument),
                     fmt::format("see: {} --help", name));
}

void parse_and_run(CLI::App& root, std::vector<std::string> arguments) {
  try {
    root.parse(std::move(arguments));  // runs the command's callback
  } catch (const CLI::CallForHelp&) {
    print_text(root.help());
  } catch (const CLI::CallForVersion&) {
    print_text(fmt::format("{} {}\n", root.get_name(), version()));
  } catch (const CLI::ParseError& error) {
    const CommandInfo command = reached(root);
    // A misspelt option is the likely reason for anything else that is missing, so it comes first.
    const std::vector<std::string> extras = root.remaining(true);
    if (!extras.empty()) throw unexpected_argument(command, extras);
    const std::string hint = fmt::format("see: {} --help", command.path);
    if (command.needs_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
      throw ConfigError(fmt::format("{} needs a command: {}", command.path,
                                    fmt::join(command_names(command), ", ")),
                        hint);
    throw ConfigError(fmt::format("{}: {}", command.path, error.what()), hint);
  }
}

}  // namespace

void set_up_root(CLI::App& root, const std::string& name) {
  root.name(name);
  root.formatter(std::make_shared<HelpFormatter>());
  root.set_help_flag("-h,--help", "print this page");
  root.set_version_flag("-V,--version", std::string(version()), "print the version");
  root.option_defaults()->always_capture_default();
  root.require_subcommand(1);
}

int run_program(CLI::App& root, int argc, const char* const* argv) {
  flush_denormals();
  std::signal(SIGPIPE, SIG_IGN);  // a write to a closed pipe fails and is handled like any other
  install_interrupt_handler();
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.empty()) {
    const std::string help = root.help();
    std::fwrite(help.data(), 1, help.size(), stderr);
    return static_cast<int>(ExitCode::kUsage);
  }
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  // CLI11 takes them last to first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  return run_guarded([&] { parse_and_run(root, std::move(reversed)); });
}

int run_guarded(const std::function<void()>& body) {
  try {
    body();
    flush_output();
    return static_cast<int>(ExitCode::kDone);
  } catch (const ClosedPipe&) {
    return static_cast<int>(ExitCode::kDone);
  } catch (const Interrupted& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const Error& error) {
    return report(error.code(), error.what(), error.hint());
  } catch (const std::filesystem::filesystem_error& error) {
    const bool absent = error.code() == std::errc::no_such_file_or_directory ||
                        error.code() == std::errc::not_a_directory;
    return report(absent ? ExitCode::kBadInput : ExitCode::kResource,
                  fmt::format("{}: {}", error.path1().string(), error.code().message()), "");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return static_cast<int>(ExitCode::kDone);
    return report(ExitCode::kResource, error.what(), "");
  } catch (const std::bad_alloc&) {
    return report(ExitCode::kResource, "out of memory",
                  "use a smaller batch, context or model, or a machine with more memory");
  } catch (const std::exception& error) {
    return report(ExitCode::kInternal, fmt::format("internal error: {}", error.what()),
                  "this is a bug of taper: please report it with the command you ran");
  }
}

}  // namespace taper
