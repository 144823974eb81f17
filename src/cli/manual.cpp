#include "cli/manual.h"

#include <cctype>
#include <sstream>
#include <vector>

namespace taper {
namespace {

// Text as roff prints it: ASCII stays ASCII, and no line is taken for a request.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '.' && out.empty()) out += "\\&";
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '"':
        out += "\\(dq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "fold the norms" -> "Fold the norms."
std::string sentence(const std::string& text) {
  return text.empty() ? "" : upper(text.substr(0, 1)) + text.substr(1) + ".";
}

std::string heading(const char* macro, const std::string& text) {
  return std::string(macro) + " \"" + escaped(text) + "\"\n";
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string options_list(const std::vector<OptionInfo>& options) {
  std::string page;
  for (const OptionInfo& option : options) {
    std::string label = option_label(option);
    label.erase(0, label.find_first_not_of(' '));
    const size_t names = option.value.empty() ? label.size() : label.rfind(option.value);
    page += ".TP\n";
    if (names > 0) page += bold(label.substr(0, names));
    if (names < label.size()) page += italic(label.substr(names));
    page += "\n" + escaped(option_text(option)) + "\n";
  }
  return page;
}

bool is_heading(const std::string& line) { return !line.starts_with(' ') && line.ends_with(':'); }

// `are_sections`: a heading begins a section of the page, not a paragraph.
std::string footer_text(const std::string& footer, bool are_sections) {
  std::string page;
  bool is_literal = false, is_new = true;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      is_new = true;
      continue;
    }
    const bool is_indented = line.starts_with(' ');
    if (is_literal != is_indented)
      page += is_indented ? ".nf\n" : ".fi\n";
    else if (is_literal && is_new)
      page += "\n";
    is_literal = is_indented;
    if (are_sections && is_heading(line)) {
      page += heading(".SH", upper(line.substr(0, line.size() - 1)));
    } else {
      if (is_new && !is_indented) page += ".PP\n";
      page += escaped(line) + "\n";
    }
    is_new = false;
  }
  return page + (is_literal ? ".fi\n" : "");
}

// Where the first heading begins, or the end.
size_t first_heading(const std::string& footer) {
  std::istringstream lines(footer);
  size_t at = 0;
  for (std::string line; std::getline(lines, line); at += line.size() + 1)
    if (is_heading(line)) return at;
  return footer.size();
}

// Help is described once, for all.
std::vector<OptionInfo> own_options(const CommandInfo& command) {
  std::vector<OptionInfo> options;
  for (const OptionInfo& option : command.options)
    if (option.long_names != std::vector<std::string>{"--help"}) options.push_back(option);
  return options;
}

std::string command_section(const CommandInfo& command) {
  std::string page;
  if (command.commands.empty()) {
    page += heading(".SS", command.path) + escaped(sentence(command.summary)) + "\n.PP\n" +
            escaped(usage(command)) + "\n";
    page += options_list(command.arguments) + options_list(own_options(command));
    page += footer_text(command.footer, false);
  }
  for (const CommandInfo& below : command.commands) page += command_section(below);
  return page;
}

}  // namespace

std::string manual_page(const CommandInfo& root, std::string_view version) {
  std::string page = ".TH " + upper(root.name) + " 1 \"\" \"" + root.name + " " + escaped(version) +
                     "\" \"User Commands\"\n.nh\n.ad l\n";
  page += ".SH NAME\n" + root.name + " \\- " + escaped(root.summary) + "\n";
  page += ".SH SYNOPSIS\n" + bold(root.name) + " " + italic("COMMAND") + " [" + italic("OPTIONS") +
          "]\n";
  const size_t sections = first_heading(root.footer);
  page += ".SH DESCRIPTION\n" + escaped(sentence(root.summary)) + "\n" +
          footer_text(root.footer.substr(0, sections), false);
  page += ".SH COMMANDS\n";
  for (const CommandInfo& command : root.commands) page += command_section(command);
  page += ".SH OPTIONS\n" + options_list(root.options);
  return page + footer_text(root.footer.substr(sections), true);
}

}  // namespace taper
