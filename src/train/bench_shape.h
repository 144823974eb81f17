// The shapes that `taper bench train` knows by name, and what a step of each costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace taper {

struct BenchShape {
  std::string name;
  ModelConfig model;
  int64_t batch = 16, window = 0;

  int64_t tokens() const { return batch * window; }
  // Pairs of a query and a key that it sees, over all layers and heads: half of the window each.
  double attention_pairs_per_token() const;
  // 6 (weights of products, the head's counted, the embedding's look-up not) + 6 layers H K T
  double flops_per_token() const;
};

// A named shape, or that of a configuration file, checked as `taper train` checks it. ConfigError
// for an unknown name; errors of what the configuration names.
BenchShape find_bench_shape(const std::string& text);

std::vector<std::string> bench_shape_names();

}  // namespace taper
