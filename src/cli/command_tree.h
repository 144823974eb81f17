// The command line as plain data, read from CLI11's tree. Help pages, the manual page and the
// completion scripts are all made from it, so they agree and cannot go out of date.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace taper {

// What an argument or the value of an option stands for, as the shell may complete it.
enum class ValueKind { kNone, kText, kFilePath, kFolderPath };

// An option ("--kind KIND"), a flag ("--json") or an argument ("CKPT").
struct OptionInfo {
  std::vector<std::string> short_names, long_names;  // "-q", "--quiet"; none for an argument
  std::string value;                  // "N", "FILE"; the name of an argument; empty for a flag
  ValueKind kind = ValueKind::kNone;  // kNone for a flag
  std::vector<std::string> choices;   // the values it takes, where there is a list of them
  std::string range;                  // "0 - 1024", where there is one
  std::string text;                   // the description alone
  std::string default_value;          // empty where there is none to show
  bool required = false;
  bool takes_many = false;  // several values at once
};

struct CommandInfo {
  std::string path;  // "taper tokenizer train"
  std::string name;  // "train"
  std::string group, summary, footer;
  bool needs_command = false;
  std::vector<OptionInfo> arguments, options;
  std::vector<CommandInfo> commands;  // by group, in the order of command.h
};

// `path` is the command as a user types it. Options that CLI11 holds in a group of alternatives
// are listed with the others.
CommandInfo describe(const CLI::App& app, const std::string& path);

// "-n, --tokens N", "    --json" or "CKPT".
std::string option_label(const OptionInfo& option);

// The description with what the reader must know besides: the values taken, and the default or that
// it is required.
std::string option_text(const OptionInfo& option);

// "taper fold CKPT OUT [OPTIONS]".
std::string usage(const CommandInfo& command);

}  // namespace taper
