// The layout of help pages: like a manual page, 80 columns wide.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace taper {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// `left` in the first column of `width`, `text` wrapped in the second.
std::string two_columns(const std::string& left, const std::string& text, size_t width);

}  // namespace taper
