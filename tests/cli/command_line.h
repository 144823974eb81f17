// The whole command line of taper, as the program itself sets it up.
#pragma once

#include <functional>
#include <string>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace taper {

inline CommandInfo command_line() {
  CLI::App root("train transformers without norms, fold the norms away, run what is left");
  set_up_root(root, "taper");
  set_up_commands(root);
  root.footer("Results go to stdout.\n\nExit codes:\n  0    done\n\nExamples:\n  taper fold a b");
  return describe(root, "taper");
}

// Calls `visit` for a command and all below it.
inline void for_each_command(const CommandInfo& command,
                             const std::function<void(const CommandInfo&)>& visit) {
  visit(command);
  for (const CommandInfo& below : command.commands) for_each_command(below, visit);
}

}  // namespace taper
