// The linear layers of a model as the products of one call take them: in the activations' type, and
// where a tapered norm in front stands at gate 0, with it multiplied in (virtual folding). Made
// once a call, so that they cost D x N however many tokens go through.
#pragma once

#include <cstdint>
#include <vector>

#include "core/aligned_memory.h"
#include "train/parameters.h"
#include "train/pass/lane.h"
#include "train/pass/weights.h"

namespace taper {

// Weights that one product multiplies (q, k, v; gate, up; one of the others; the head), and the
// norm whose output they read.
struct FoldableLinear {
  int64_t offset;  // in the parameters' layout
  int64_t out, in;
  int norm = -1;         // an index; -1: they read no norm
  bool is_head = false;  // the embedding, where the two are tied

  int64_t size() const { return out * in; }
  Range range() const { return {offset, offset + size()}; }
};

// In execution order: four a block, then the head.
std::vector<FoldableLinear> foldable_linears(const Architecture& architecture,
                                             const ParameterLayout& layout);

template <typename R>
class Operands {
 public:
  // `parameters` must outlive this.
  Operands(const ModelParameters<R>& parameters, Activations activations);

  // Makes the operands at a gate. They are valid until the next call.
  void make(ThreadPool& team, double gate);

  // What a lane works with, its gradients at `gradients` (the parameters' layout) and those of
  // folded operands at `folded_gradients` (folded_size() elements; both may be null without a
  // backward pass). `sums`, when given, has a place for each norm; those in scope gather into it.
  ModelWeights<R> weights(R* gradients, R* folded_gradients,
                          std::vector<TaperNormSums>* sums) const;

  // Elements of all operands that a norm is folded into.
  int64_t folded_size() const;
  // Takes the sum of the lanes' gradients of folded operands apart, adding to the parameters' own,
  // and sets them to 0.
  void backward(ThreadPool& team, std::vector<R*> folded_gradients) const;
  // Elements of the parameters' gradients, in order, to which no lane adds: those of folded
  // operands, but for what they share with the embedding.
  std::vector<Range> idle_gradients() const;

  // Bytes of the operands, and of folded_size() elements at gate 0; `tapers`: the model has norms
  // in scope.
  static int64_t memory_bytes(const Architecture& architecture, Activations activations,
                              bool tapers);
  static int64_t folded_bytes(const Architecture& architecture, bool tapers);

 private:
  struct Operand {
    FoldableLinear linear;
    bool folded = false;
    const void* data = nullptr;
  };

  bool is_folded(const FoldableLinear& linear) const;
  NormWeights<R> norm_weights(int norm, R* gradients, std::vector<TaperNormSums>* sums) const;

  const ModelParameters<R>& parameters_;
  Activations activations_;
  double gate_ = 1;
  std::vector<Operand> operands_;
  AlignedMemory memory_;
};

}  // namespace taper
