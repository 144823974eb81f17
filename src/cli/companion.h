// The companion program taper-train, which links LibTorch. Its commands are started through taper.
#pragma once

#include <CLI/CLI.hpp>

namespace taper {

// Whether these arguments belong to the companion: train, analyze, reproduce, bench train.
bool is_companion_command(int argc, const char* const* argv);

// Replaces this process by taper-train, which lies in the folder of the running program and gets
// the same arguments. Throws ConfigError when it was not built.
[[noreturn]] void start_companion(int argc, const char* const* argv);

// Lists the companion's commands on the help page of `root`, and for "did you mean".
void list_companion_commands(CLI::App& root);

}  // namespace taper
