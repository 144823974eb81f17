// One lane's work: a few windows through all layers and back (train/fused/transformer.h).
#pragma once

#include <memory>

#include "train/fused/transformer.h"

namespace taper {

class Pass {
 public:
  virtual ~Pass() = default;
  virtual PassSums run(const FusedParameters& parameters, const FusedBatch& batch,
                       const PassOptions& options) = 0;
  PassProfile* profile = nullptr;
};

std::unique_ptr<Pass> make_pass(const ModelConfig& config, Activations activations);

// What a pass over `batch` windows keeps and works in; `threads`: those that its ops are split
// over.
int64_t pass_memory_bytes(const ModelConfig& config, Activations activations, int64_t batch,
                          int64_t time, int threads);

}  // namespace taper
