// AdamW over a ParameterBuffer: the moments, one update, and what clipping needs to know.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "train/nn/parameters.h"

namespace taper {

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;  // of matrices; vectors (norm weights) have none
};

class AdamW {
 public:
  AdamW(ParameterBuffer& parameters, const OptimizerOptions& options);

  // One update with the gradients multiplied by `gradient_scale` (clipping).
  void step(double learning_rate, double gradient_scale);

  // Sum of squares of all gradients, in double; not finite exactly when a gradient is not.
  double squared_gradient_norm() const;
  // "name[index]" of the first gradient that is not finite; empty when all are.
  std::string first_bad_gradient() const;
  void clear_gradients();

  torch::Tensor& first_moments() { return first_moments_; }
  torch::Tensor& second_moments() { return second_moments_; }
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }  // on resuming

 private:
  ParameterBuffer& parameters_;
  OptimizerOptions options_;
  torch::Tensor first_moments_, second_moments_;
  int64_t updates_ = 0;
};

}  // namespace taper
