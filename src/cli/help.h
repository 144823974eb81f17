// The layout of help pages: like a manual page, 80 columns wide.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace taper {

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// `left` in the first column of `width`, `text` wrapped in the second.
std::string two_columns(const std::string& left, const std::string& text, size_t width);

}  // namespace taper
