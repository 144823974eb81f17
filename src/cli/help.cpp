#include "cli/help.h"

#include <sstream>
#include <vector>

#include "cli/command_tree.h"

namespace taper {
namespace {

constexpr size_t kPageWidth = 80;
constexpr size_t kOptionColumn = 26;
constexpr size_t kCommandColumn = 14;

std::string rows(const char* heading, const std::vector<OptionInfo>& options) {
  if (options.empty()) return "";
  std::string page = "\n" + std::string(heading) + ":\n";
  for (const OptionInfo& option : options)
    page += two_columns(option_label(option), option_text(option), kOptionColumn);
  return page;
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
                                     CLI::AppFormatMode) const {
  const CommandInfo command = describe(*app, name);
  std::string page = name + " - " + command.summary + "\n\nUsage: " + usage(command) + "\n";
  std::string group;
  for (const CommandInfo& below : command.commands) {
    if (below.group != group) page += "\n" + below.group + ":\n";
    group = below.group;
    page += two_columns(below.name, below.summary, kCommandColumn);
  }
  page += rows("Arguments", command.arguments) + rows("Options", command.options);
  if (!command.footer.empty()) page += "\n" + command.footer + "\n";
  return page;
}

}  // namespace taper
