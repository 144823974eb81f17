// Folding (method.md, section 1): at g = 0 a tapered RMS norm is the map h -> c h diag(gamma~), and
// the linear weights that read it absorb it. With weights stored (out, in), for each consumer W:
//
//   W'[o][i] = W[o][i] * (c * gamma~[i])      in double, rounded once to fp32
//
// A tied head is copied before the final norm is folded into it: the token embedding never changes.
// Folded weights are fp32 whatever type they had, so that folding adds no rounding of a narrower
// type.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/tensor_set.h"

namespace taper {

// One tapered norm and the weights that absorb it.
struct FoldStep {
  NormSite site;
  std::vector<Place> readers;  // in the folded model: an untied head is a place of its own
};

struct FoldPlan {
  std::vector<FoldStep> steps;  // in execution order
  bool unties_head = false;
  ModelConfig config;  // of the folded model
  TaperState taper;    // of the folded model; its source is that of the original, moved to "from"
};

// Every tapered norm of the model. ConfigError, with the next step, when none is tapered or the
// weights stand at a gate other than 0. `what` names the checkpoint.
FoldPlan plan_fold(const ModelConfig& config, const TaperState& taper, const std::string& what);

struct FoldedModel {
  FoldPlan plan;
  // Exactly what plan.config and plan.taper call for; those that did not change are shared with the
  // original.
  std::shared_ptr<const TensorSet> tensors;
  std::vector<std::string> changed;  // the folded weights among them
};

// Plans and computes. NumericsError naming the tensor when c, gamma~ or a result is not finite.
FoldedModel fold(const Checkpoint& checkpoint);

// The folded model with every folded weight moved to one of its two neighbours in fp32, drawn by
// `seed`. Folding itself moves a weight by half that distance at most, so how far the logits of
// this model are from the folded one's shows how much of a difference rounding alone can make on
// this very model. Shares the other tensors with `folded`.
std::shared_ptr<const TensorSet> with_rounding_noise(const FoldedModel& folded, uint64_t seed);

}  // namespace taper
