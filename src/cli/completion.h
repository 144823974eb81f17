// Completion scripts for shells, made from the command line itself: its commands, options and,
// where they are known, the values of options; paths for FILE and FOLDER (command.h).
#pragma once

#include <string>

#include "cli/command_tree.h"

namespace taper {

// To be sourced, or installed as share/bash-completion/completions/<program>. Needs bash 4 and no
// package bash-completion.
std::string bash_completion(const CommandInfo& root);

// To be installed as _<program> in a folder of $fpath.
std::string zsh_completion(const CommandInfo& root);

// To be sourced, or installed as share/fish/vendor_completions.d/<program>.fish.
std::string fish_completion(const CommandInfo& root);

}  // namespace taper
