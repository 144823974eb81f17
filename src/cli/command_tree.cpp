#include "cli/command_tree.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "cli/command.h"

namespace taper {
namespace {

// The groups in their order; others follow.
constexpr const char* kGroups[] = {kPrepare, kTrain, kInspect, kRemoveNorms, kUse, kHelp};

auto group_rank(const std::string& group) {
  return std::find(std::begin(kGroups), std::end(kGroups), group) - std::begin(kGroups);
}

// The part of `text` between `open`, searched from `from`, and `close`; empty when there is none.
std::string between(const std::string& text, size_t from, const std::string& open, char close) {
  const size_t found = text.find(open, from);
  if (found == std::string::npos) return "";
  const size_t begin = found + open.size();
  return text.substr(begin, text.find(close, begin) - begin);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

ValueKind kind_of(const std::string& type) {
  if (type == kFile) return ValueKind::kFilePath;
  if (type == kFolder) return ValueKind::kFolderPath;
  return ValueKind::kText;
}

OptionInfo describe(const CLI::Option& option) {
  OptionInfo info;
  for (const std::string& name : option.get_snames()) info.short_names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.long_names.push_back("--" + name);
  info.text = option.get_description();
  info.required = option.get_required();
  if (option.get_items_expected_max() == 0) return info;

  // CLI11 appends what a validator accepts to the type: "N:INT in [0 - 8]", "TEXT:{a,b}".
  const std::string type = option.get_type_name();
  const size_t colon = std::min(type.find(':'), type.size());
  info.value = option.get_positional() ? option.get_name(true, false) : type.substr(0, colon);
  info.kind = kind_of(type.substr(0, colon));
  info.choices = split(between(type, colon, "{", '}'), ',');
  info.range = between(type, colon, " in [", ']');
  info.takes_many = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  const std::string value = option.get_default_str();
  if (value != "[]" && value != "\"\"") info.default_value = value;
  return info;
}

void add_options(const std::vector<const CLI::Option*>& options, CommandInfo& command) {
  for (const CLI::Option* option : options)
    (option->get_positional() ? command.arguments : command.options).push_back(describe(*option));
}

// A group of alternatives is a command without a name, with a --help of its own that is not ours.
std::vector<const CLI::Option*> alternatives(const CLI::App& group) {
  return group.get_options(
      [&](const CLI::Option* option) { return option != group.get_help_ptr(); });
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

CommandInfo describe(const CLI::App& app, const std::string& path) {
  CommandInfo command;
  command.path = path;
  command.name = app.get_name();
  command.group = app.get_group();
  command.summary = app.get_description();
  command.footer = app.get_footer();
  command.needs_command = app.get_require_subcommand_min() > 0;
  add_options(app.get_options(), command);
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; }))
    if (below->get_name().empty())
      add_options(alternatives(*below), command);
    else
      command.commands.push_back(describe(*below, path + " " + below->get_name()));
  std::stable_sort(command.commands.begin(), command.commands.end(),
                   [](const CommandInfo& a, const CommandInfo& b) {
                     return group_rank(a.group) < group_rank(b.group);
                   });
  return command;
}

std::string option_label(const OptionInfo& option) {
  if (option.short_names.empty() && option.long_names.empty()) return option.value;
  std::string text = option.short_names.empty() ? "    " : joined(option.short_names);
  if (!option.short_names.empty() && !option.long_names.empty()) text += ", ";
  text += joined(option.long_names);
  if (!option.value.empty()) text += " " + option.value;
  if (option.takes_many) text += "...";
  return text;
}

std::string option_text(const OptionInfo& option) {
  std::string text = option.text;
  if (!option.choices.empty()) text += " (one of " + joined(option.choices) + ")";
  if (!option.range.empty()) text += " (" + option.range + ")";
  if (option.required)
    text += " (required)";
  else if (!option.default_value.empty())
    text += " [default: " + option.default_value + "]";
  return text;
}

std::string usage(const CommandInfo& command) {
  std::string text = command.path;
  if (command.needs_command) text += " COMMAND";
  for (const OptionInfo& argument : command.arguments) {
    const std::string name = argument.value + (argument.takes_many ? "..." : "");
    text += argument.required ? " " + name : " [" + name + "]";
  }
  for (const OptionInfo& option : command.options) {
    if (!option.required) continue;
    const auto& names = option.long_names.empty() ? option.short_names : option.long_names;
    text += " " + names.front() + " " + option.value + (option.takes_many ? "..." : "");
  }
  return text + " [OPTIONS]";
}

}  // namespace taper
