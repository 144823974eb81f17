#include "cli/completion.h"

#include <algorithm>
#include <vector>

namespace taper {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// A command and all below it.
std::vector<const CommandInfo*> all_commands(const CommandInfo& root) {
  std::vector<const CommandInfo*> commands = {&root};
  for (const CommandInfo& below : root.commands)
    for (const CommandInfo* command : all_commands(below)) commands.push_back(command);
  return commands;
}

Words names_of(const OptionInfo& option) {
  Words names = option.short_names;
  names.insert(names.end(), option.long_names.begin(), option.long_names.end());
  return names;
}

std::string header(const CommandInfo& root, const std::string& shell) {
  return "# Completion of " + root.name + " for " + shell + ". Made by: " + root.name +
         " completion " + shell + "\n";
}

// ---- bash ----

// In double quotes: 'taper fold:--verify-data'.
std::string bash_pattern(const Words& words) { return "\"" + joined(words, "\" | \"") + "\""; }

// A line of bash that says what completes a value or an argument; empty for free text.
std::string bash_source(const OptionInfo& option) {
  if (!option.choices.empty()) return "words=\"" + joined(option.choices, " ") + "\"";
  if (option.kind == ValueKind::kFilePath) return "paths=-f";
  if (option.kind == ValueKind::kFolderPath) return "paths=-d";
  return "";
}

// The cases of `case "$command:$prev"` for the values of options.
std::string bash_value_cases(const CommandInfo& command) {
  std::string text;
  for (const OptionInfo& option : command.options) {
    if (option.kind == ValueKind::kNone) continue;
    Words patterns;
    for (const std::string& name : names_of(option)) patterns.push_back(command.path + ":" + name);
    const std::string source = bash_source(option);
    text += "    " + bash_pattern(patterns) + ") " + (source.empty() ? "return" : source) + " ;;\n";
  }
  return text;
}

// The case of `case $command` for everything but values.
std::string bash_command_case(const CommandInfo& command) {
  Words commands, options, sources;
  for (const CommandInfo& below : command.commands) commands.push_back(below.name);
  for (const OptionInfo& option : command.options)
    for (const std::string& name : names_of(option)) options.push_back(name);
  for (const OptionInfo& argument : command.arguments) {
    const std::string source = bash_source(argument);
    if (!source.empty() && std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(source);
  }
  if (!commands.empty()) sources.push_back("words=\"" + joined(commands, " ") + "\"");
  sources.push_back("options=\"" + joined(options, " ") + "\"");
  return "        \"" + command.path + "\") " + joined(sources, " ") + " ;;\n";
}

// ---- zsh ----

std::string zsh_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// "taper tokenizer train" -> "_taper_tokenizer_train".
std::string zsh_function(const CommandInfo& command) {
  return "_" + replaced(command.path, " ", "_");
}

std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// ":FILE:_files": what _arguments needs to know of a value.
std::string zsh_value(const OptionInfo& option) {
  std::string action = " ";
  if (!option.choices.empty())
    action = "(" + joined(option.choices, " ") + ")";
  else if (option.kind == ValueKind::kFilePath)
    action = "_files";
  else if (option.kind == ValueKind::kFolderPath)
    action = "_files -/";
  return ":" + zsh_text(option.value) + ":" + action;
}

// '(-j --threads)'{-j+,--threads=}'[threads to use]:N: '.
std::string zsh_option(const OptionInfo& option) {
  const bool is_flag = option.kind == ValueKind::kNone;
  Words specs;
  for (const std::string& name : option.short_names) specs.push_back(name + (is_flag ? "" : "+"));
  for (const std::string& name : option.long_names) specs.push_back(name + (is_flag ? "" : "="));
  std::string text = option.takes_many ? "*" : "(" + joined(names_of(option), " ") + ")";
  text = zsh_quoted(text) + (specs.size() == 1 ? specs.front() : "{" + joined(specs, ",") + "}");
  std::string rest = "[" + zsh_text(option.text) + "]";
  // Several values end at the next option.
  if (!is_flag) rest += (option.takes_many ? ":*-*" : "") + zsh_value(option);
  return text + zsh_quoted(rest);
}

std::string zsh_arguments(const CommandInfo& command) {
  std::string text;
  for (const OptionInfo& option : command.options) text += " \\\n    " + zsh_option(option);
  int place = 1;
  for (const OptionInfo& argument : command.arguments) {
    const std::string at = argument.takes_many ? "*" : std::to_string(place++);
    text += " \\\n    " + zsh_quoted(at + zsh_value(argument));
  }
  return text;
}

std::string zsh_command(const CommandInfo& command) {
  std::string text = "\n" + zsh_function(command) + "() {\n";
  if (command.commands.empty()) return text + "  _arguments -s" + zsh_arguments(command) + "\n}\n";
  text += "  local curcontext=$curcontext state line\n  _arguments -C" + zsh_arguments(command) +
          " \\\n    '1:command:->command' \\\n    '*::arguments:->arguments' && return\n"
          "  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandInfo& below : command.commands)
    text += "        " + zsh_quoted(below.name + ":" + replaced(below.summary, ":", "\\:")) + "\n";
  text += "      )\n      _describe command commands ;;\n    arguments)\n      case $words[1] in\n";
  for (const CommandInfo& below : command.commands)
    text += "        " + below.name + ") " + zsh_function(below) + " ;;\n";
  return text + "      esac ;;\n  esac\n}\n";
}

// ---- fish ----

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

// The switches of fish's `complete` for what a value or an argument may be; -x: no files.
std::string fish_source(const OptionInfo& option) {
  if (option.kind == ValueKind::kNone) return "";
  if (!option.choices.empty()) return " -x -a " + fish_quoted(joined(option.choices, " "));
  if (option.kind == ValueKind::kFilePath) return " -r -F";
  if (option.kind == ValueKind::kFolderPath) return " -x -a '(__fish_complete_directories)'";
  return " -x";
}

std::string fish_command(const CommandInfo& root, const CommandInfo& command) {
  const std::string start =
      "complete -c " + root.name + " -n \"__" + root.name + "_at '" + command.path + "'\"";
  std::string text;
  for (const CommandInfo& below : command.commands)
    text += start + " -a " + below.name + " -d " + fish_quoted(below.summary) + "\n";
  for (const OptionInfo& argument : command.arguments) text += start + fish_source(argument) + "\n";
  for (const OptionInfo& option : command.options) {
    text += start;
    for (const std::string& name : option.short_names) text += " -s " + name.substr(1);
    for (const std::string& name : option.long_names) text += " -l " + name.substr(2);
    text += fish_source(option) + " -d " + fish_quoted(option.text) + "\n";
  }
  return text;
}

}  // namespace

std::string bash_completion(const CommandInfo& root) {
  Words paths, many;
  std::string values, commands;
  for (const CommandInfo* command : all_commands(root)) {
    if (command != &root) paths.push_back(command->path);
    for (const OptionInfo& option : command->options)
      if (option.takes_many)
        for (const std::string& name : names_of(option)) many.push_back(command->path + ":" + name);
    values += bash_value_cases(*command);
    commands += bash_command_case(*command);
  }
  std::string script = header(root, "bash") + "_" + root.name + "() {\n";
  script += R"(  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local option="" words="" paths="" options="" i
)";
  script += "  local command=" + root.name + "\n";
  script += R"(  COMPREPLY=()
  # --option=value arrives as three words.
  if [[ $cur == "=" ]]; then
    cur=""
  elif [[ $prev == "=" ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} != -* ]] || option=${COMP_WORDS[i]}
    case "$command ${COMP_WORDS[i]}" in
)";
  script +=
      "      " + bash_pattern(paths) + ") command+=\" ${COMP_WORDS[i]}\" ;;\n    esac\n  done\n";
  if (!many.empty()) {
    script += "  # Options that take several values, up to the next option.\n";
    script += "  case \"$command:$option\" in\n    " + bash_pattern(many) +
              ") [[ $prev == -* || $cur == -* ]] || prev=$option ;;\n  esac\n";
  }
  script +=
      "  case \"$command:$prev\" in\n" + values + "    *)\n      case $command in\n" + commands;
  script += R"(      esac
      if [[ $cur == -* || -z $words$paths ]]; then
        words=$options paths=""
      fi ;;
  esac
  [[ -z $paths ]] || compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen $paths -W "$words" -- "$cur")
}
)";
  return script + "complete -F _" + root.name + " " + root.name + "\n";
}

std::string zsh_completion(const CommandInfo& root) {
  std::string script = "#compdef " + root.name + "\n" + header(root, "zsh");
  for (const CommandInfo* command : all_commands(root)) script += zsh_command(*command);
  const std::string function = zsh_function(root);
  // zsh calls the file the first time; a file that is sourced registers itself.
  return script + "\nif [[ $funcstack[1] == " + function + " ]]; then\n  " + function +
         " \"$@\"\nelse\n  compdef " + function + " " + root.name + "\nfi\n";
}

std::string fish_completion(const CommandInfo& root) {
  Words paths;
  std::string rules;
  for (const CommandInfo* command : all_commands(root)) {
    if (command != &root) paths.push_back(fish_quoted(command->path));
    rules += fish_command(root, *command);
  }
  std::string script = header(root, "fish");
  script += "function __" + root.name + "_at -d 'Whether the words so far reach this command'\n";
  script += "    set -l command " + root.name + "\n";
  script += R"(    for word in (commandline -opc)[2..-1]
        if contains -- "$command $word" )";
  script += joined(paths, " ") + "\n";
  script += R"(            set command "$command $word"
        end
    end
    test "$command" = "$argv[1]"
end
)";
  return script + "complete -c " + root.name + " -f\n" + rules;
}

}  // namespace taper
