// One lane's work: a few windows through all layers and back (train/pass/training_pass.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/rope.h"
#include "model/config.h"
#include "ops/context.h"
#include "train/pass/weights.h"

namespace taper {

// What products take: the parameters' own type, or bf16.
enum class Activations { kFull, kBF16 };

struct BatchView {
  const int64_t* ids;      // [batch, time], each in [0, V)
  const int64_t* targets;  // [batch, time], negative (not counted) or in [0, V)
  int64_t batch, time;
};

struct PassOptions {
  double gate = 1;
  bool calibrate = false;               // gather the calibration sums of norms in scope, at gate 1
  bool skip_first_position = false;     // leave position 0 of a window out of the statistics
  std::optional<double> anchor_target;  // s_tgt
  bool backward = false;
  // Gradients are those of loss_weight * loss + anchor_weight * anchor.
  double loss_weight = 1, anchor_weight = 0;
};

struct PassSums {
  double loss = 0;        // cross-entropy in nats
  double logit_norm = 0;  // L2 norms of the logits
  int64_t count = 0;      // rows with a target
  double anchor = 0;      // (s(h) - s_tgt)^2
  double scale = 0;       // s(h) at the final norm's input
  int64_t scale_count = 0;
  std::vector<TaperNormSums> norms;  // norm by norm, with `calibrate`

  PassSums& operator+=(const PassSums& other);
};

template <typename R>
class Lane {
 public:
  explicit Lane(const OpContext& context) : context_(context) {}
  virtual ~Lane() = default;
  // `rope` covers the window. Adds to the gradients in `weights`.
  virtual PassSums run(const ModelWeights<R>& weights, const RopeTable<R>& rope,
                       const BatchView& batch, const PassOptions& options) = 0;
  void set_profile(OpProfile* profile) { context_.profile = profile; }

 protected:
  OpContext context_;
};

// A lane over the threads of context.team, which outlives it.
template <typename R>
std::unique_ptr<Lane<R>> make_lane(const ModelConfig& config, Activations activations,
                                   const OpContext& context);

// What a lane keeps and works in, in bytes.
template <typename R>
int64_t lane_memory_bytes(const ModelConfig& config, Activations activations, int64_t batch,
                          int64_t time, int threads);

}  // namespace taper
