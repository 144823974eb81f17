// The frame of a program made of commands: help pages, errors, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace taper {

// Prepares the root: the layout of the help pages, --version, defaults shown, one command required.
// Call it before adding commands: they inherit from it.
void set_up_root(CLI::App& root, const std::string& name);

// Parses the arguments and runs the command they name; returns the exit code. "help X" is "X
// --help".
int run_program(CLI::App& root, int argc, const char* const* argv);

// Runs `body`. What it throws becomes a message on stderr ("error: <what>\n  <hint>") and an exit
// code (core/error.h). Flushes stdout.
int run_guarded(const std::function<void()>& body);

}  // namespace taper
