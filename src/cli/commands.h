// The commands of taper, in the order of its help page within each group. To add one, write
// cmd_<name>.cpp (see command.h) and its line here.
#pragma once

#include <CLI/CLI.hpp>

// clang-format off
#define TAPER_COMMANDS(COMMAND) \
  COMMAND(tokenizer) \
  COMMAND(data) \
  COMMAND(train) \
  COMMAND(import) \
  COMMAND(info) \
  COMMAND(report) \
  COMMAND(calibrate) \
  COMMAND(fold) \
  COMMAND(eval) \
  COMMAND(generate) \
  COMMAND(bench) \
  COMMAND(completion) \
  COMMAND(manual)
// clang-format on

namespace taper {

#define TAPER_DECLARE(name) void setup_##name(CLI::App& parent);
TAPER_COMMANDS(TAPER_DECLARE)
#undef TAPER_DECLARE

inline void set_up_commands(CLI::App& parent) {
#define TAPER_SET_UP(name) setup_##name(parent);
  TAPER_COMMANDS(TAPER_SET_UP)
#undef TAPER_SET_UP
}

}  // namespace taper
