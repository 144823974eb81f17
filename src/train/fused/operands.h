// The weights as the products of one call take them: in the activations' type, and where a tapered
// norm in front is at gate 0, with it multiplied in (virtual folding, train/fused/transformer.h).
// Made once a call, so that they cost D x N however many tokens go through.
#pragma once

#include <cstdint>
#include <vector>

#include "core/aligned_memory.h"
#include "train/fused/transformer.h"

namespace taper {

class Operands {
 public:
  Operands(const ModelConfig& config, Activations activations)
      : config_(config), activations_(activations) {}

  // `parameters` with their operands, and norms that these carry marked as folded. Valid until the
  // next call.
  FusedParameters make(const FusedParameters& parameters, double gate);

  // Floats that the gradients of all operands with a norm take.
  int64_t gradient_size() const;
  // Has those gradients of `made` added up at `gradients`.
  void redirect(float* gradients, FusedParameters& made) const;
  // Adds the sum of all lanes' to the gradients of weights and norms in `parameters`, and sets them
  // to 0.
  void backward(std::vector<float*> gradients, const FusedParameters& parameters) const;
  // Ranges of parameters.gradients, in order, to which no pass adds: those of operands with a norm,
  // but for what they share with the embedding.
  std::vector<Range> idle_gradients(const FusedParameters& parameters) const;

  // Bytes of the operands, and of gradient_size() floats; `tapered`: the model has norms to carry.
  static int64_t memory_bytes(const ModelConfig& config, Activations activations, bool tapered);
  static int64_t gradient_bytes(const ModelConfig& config, bool tapered);

 private:
  ModelConfig config_;
  Activations activations_;
  std::vector<bool> carries_;  // whether the operand carries its norm, a product each
  AlignedMemory memory_;
};

}  // namespace taper
