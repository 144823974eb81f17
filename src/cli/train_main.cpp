// taper-train: the commands that link LibTorch. Users start them through taper.
#include "cli/program.h"
#include "cli/train_command.h"

int main(int argc, char** argv) {
  CLI::App root("train transformers without norms");
  taper::set_up_root(root, "taper");
  taper::setup_train(root);
  taper::setup_bench_train(root);
  return taper::run_program(root, argc, argv);
}
