// The training pass of a pre-norm transformer: losses and gradients of one batch of windows,
// written out by hand over our ops, without a tape.
//
// Every norm has one reader, so the unit is a linear layer with its norm:
//   the norm is folded   y = h W^T
//   tapered, gate 0      y = h W'^T,  W' = W diag(c gamma~), made once a call (virtual folding)
//   otherwise            y = x W^T,   x = N(h), computed again in the backward
// Virtually folded, nothing runs over tokens and nothing is kept for the norm; the gradients come
// from the weight's, once a call: with G = dy^T h,  dW += G diag(c gamma~),  dgamma~ += c colsum(G
// W).
//
// Depth first: each lane takes few windows at a time through all layers and back, so that what they
// keep stays in its caches, with gradients of its own that are added up at the end. There are as
// many lanes as the memory for gradients and the windows allow; the threads are shared out among
// them, a team for each, over which it splits its ops.
//
// Kept per layer and token: h twice, q k v, the attention's output, gate and up, the statistics.
// Products take the parameters' type R or, for float, bf16: the residual stream and its gradient,
// statistics, softmax, losses and gradients of parameters stay in R. R = double runs over plain
// loops and is the reference. Results repeat bit for bit at a fixed number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/parameters.h"
#include "train/pass/lane.h"
#include "train/pass/operands.h"

namespace taper {

template <typename R>  // float or double
class TrainingPass {
 public:
  // Both must outlive the pass.
  TrainingPass(ModelParameters<R>& parameters, Activations activations, ThreadPool& threads);
  ~TrainingPass();

  // The sums over the batch; with options.backward, adds to the parameters' gradients. Ids and
  // targets are the caller's to check, a window no longer than the context.
  PassSums run(const BatchView& batch, const PassOptions& options);

  // Working memory in bytes; `tapers`: norms are in scope, so that they fold at gate 0.
  static int64_t memory_bytes(const Architecture& architecture, Activations activations,
                              bool tapers, int64_t batch, int64_t time, int threads);

  // Where the time of one lane goes, while not null.
  void set_profile(OpProfile* profile) { profile_ = profile; }

 private:
  struct LaneState;

  void prepare(int lanes, int team, const PassOptions& options);
  void gather_gradients(int lanes);

  ModelParameters<R>& parameters_;
  Activations activations_;
  ThreadPool& threads_;
  OpProfile* profile_ = nullptr;
  Operands<R> operands_;
  RopeTable<R> rope_;
  std::vector<LaneState> lanes_;
};

}  // namespace taper
