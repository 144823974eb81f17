// AdamW over a range of a model's parameters: the moments, one update, and what clipping needs to
// know.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/aligned_memory.h"
#include "ops/adamw.h"
#include "train/parameters.h"

namespace taper {

class AdamW {
 public:
  // `range`: weights() or gamma_t() of the parameters' layout. options.weight_decay is that of
  // matrices; vectors (norm weights) have none. Both references must outlive this.
  AdamW(ModelParameters<float>& parameters, Range range, const AdamWOptions& options,
        ThreadPool& threads);

  // One update with the gradients multiplied by `gradient_scale` (clipping).
  void step(double learning_rate, double gradient_scale);

  // Sum of squares of all gradients, in double; not finite exactly when a gradient is not.
  double squared_gradient_norm() const;
  // "name[index]" of the first gradient that is not finite; empty when all are.
  std::string first_bad_gradient() const;

  std::span<float> first_moments() const { return floats(first_moments_); }
  std::span<float> second_moments() const { return floats(second_moments_); }
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }  // on resuming

 private:
  std::span<float> floats(const AlignedMemory& memory) const;
  std::span<float> gradients() const;

  ModelParameters<float>& parameters_;
  Range range_;
  AdamWOptions options_;
  ThreadPool& threads_;
  AlignedMemory first_moments_, second_moments_;
  int64_t updates_ = 0;
};

}  // namespace taper
