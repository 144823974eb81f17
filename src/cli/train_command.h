#pragma once

#include <CLI/CLI.hpp>

namespace taper {

void setup_train(CLI::App& parent);
void setup_bench_train(CLI::App& parent);

}  // namespace taper
