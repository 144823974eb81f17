// taper bench train, a command of its own beside the other measurements of cmd_bench.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace taper {

void setup_bench_train(CLI::App& group);

}  // namespace taper
