#include "cli/help.h"

#include <algorithm>
#include <sstream>

#include "cli/command.h"

namespace taper {
namespace {

constexpr size_t kPageWidth = 80;
constexpr size_t kOptionColumn = 26;
constexpr size_t kCommandColumn = 14;

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// CLI11 appends what a validator accepts to the name of a value: "N:INT in [0 - 8]", "KIND:{a,b}".
std::string value_name(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));
}

// " (0 - 8)", " (one of a, b)", or nothing when there is no such validator.
std::string accepted_values(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return "";
  const size_t range = name.find(" in [", colon), set = name.find('{', colon);
  if (range != std::string::npos) {
    const size_t begin = range + 5;
    return " (" + name.substr(begin, name.find(']', begin) - begin) + ")";
  }
  if (set == std::string::npos) return "";
  std::string values;
  for (const char c : name.substr(set + 1, name.find('}', set) - set - 1)) {
    values += c;
    if (c == ',') values += ' ';
  }
  return " (one of " + values + ")";
}

// "-n, --tokens N" or "CKPT".
std::string left_column(const CLI::Option& option, bool is_positional) {
  if (is_positional) return option.get_name(true, false);
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  if (text.empty()) text = "    ";
  for (const std::string& name : option.get_lnames())
    text += (text.back() == ' ' ? "--" : ", --") + name;
  if (!is_flag(option)) text += " " + value_name(option);
  if (option.get_expected_max() == CLI::detail::expected_max_vector_size) text += "...";
  return text;
}

// The description with what the reader must know besides: the default, or that it is required.
std::string right_column(const CLI::Option& option) {
  std::string text = option.get_description() + accepted_values(option);
  const std::string value = option.get_default_str();
  if (option.get_required())
    text += " (required)";
  else if (!is_flag(option) && !value.empty() && value != "[]" && value != "\"\"")
    text += " [default: " + value + "]";
  return text;
}

// The groups in the order of the page; others follow.
constexpr const char* kGroups[] = {kPrepare, kTrain, kInspect, kRemoveNorms, kUse};

size_t group_rank(const CLI::App& command) {
  const auto* found = std::find(std::begin(kGroups), std::end(kGroups), command.get_group());
  return static_cast<size_t>(found - std::begin(kGroups));
}

}  // namespace

std::string two_columns(const std::string& left, const std::string& text, size_t width) {
  std::string page = "  " + left;
  size_t column = page.size();
  if (column + 2 > width) {
    page += "\n";
    column = 0;
  }
  page.append(width - column, ' ');
  column = width;
  std::istringstream words(text);
  std::string word;
  while (words >> word) {
    const size_t space = column > width ? 1 : 0;
    if (space == 1 && column + space + word.size() > kPageWidth) {
      page += "\n" + std::string(width, ' ');
      column = width;
    } else if (space == 1) {
      page += " ";
      ++column;
    }
    page += word;
    column += word.size();
  }
  return page + "\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string page = name + " - " + app->get_description() + "\n\n" + make_usage(app, name);
  page += make_subcommands(app, mode);
  page += make_positionals(app);
  page += make_groups(app, mode);
  if (const std::string footer = make_footer(app); !footer.empty()) page += "\n" + footer;
  return page;
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = "Usage: " + name;
  if (app->get_require_subcommand_min() > 0) usage += " COMMAND";
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) {
      usage += " " + make_option_usage(option);
    } else if (option->get_required()) {
      const std::string& longest = option->get_lnames().empty() ? option->get_snames().front()
                                                                : option->get_lnames().front();
      usage += (option->get_lnames().empty() ? " -" : " --") + longest + " " + value_name(*option);
      if (option->get_expected_max() == CLI::detail::expected_max_vector_size) usage += "...";
    }
  }
  return usage + " [OPTIONS]\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return two_columns(left_column(*option, is_positional), right_column(*option), kOptionColumn);
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  std::vector<const CLI::App*> commands =
      app->get_subcommands([](const CLI::App*) { return true; });
  std::stable_sort(commands.begin(), commands.end(), [](const CLI::App* a, const CLI::App* b) {
    return group_rank(*a) < group_rank(*b);
  });
  std::string page, group;
  for (const CLI::App* command : commands) {
    if (command->get_group() != group) {
      group = command->get_group();
      page += "\n" + group + ":\n";
    }
    page += make_subcommand(command);
  }
  return page;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return two_columns(command->get_name(), command->get_description(), kCommandColumn);
}

}  // namespace taper
