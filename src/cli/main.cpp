// taper: the one program, all commands.
#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/program.h"

namespace {

constexpr const char* kFooter = R"(Results go to stdout, progress and messages to stderr.

Exit codes:
  0    done
  1    internal error: a bug of taper
  2    usage or configuration
  3    bad input file
  4    numerical failure: divergence, or a verification that did not hold
  5    out of memory or disk, or no permission
  130  interrupted; training saves a checkpoint first

Examples:
  taper tokenizer train --input book.txt --vocab-size 4096 --out tokenizer.json
  taper data prepare --tokenizer tokenizer.json --input book.txt --out data
  taper train configs/demo-taper.toml --out runs/tapered
  taper fold runs/tapered folded --verify-data data/valid.tok
  taper generate folded --prompt "In the beginning"

Help on a command: taper COMMAND --help. All of it on one page: taper manual | man -l -)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App root("train transformers without norms, fold the norms away, run what is left");
  taper::set_up_root(root, "taper");
  taper::set_up_commands(root);
  root.footer(kFooter);
  return taper::run_program(root, argc, argv);
}
