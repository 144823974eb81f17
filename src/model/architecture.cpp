#include "model/architecture.h"

#include <functional>
#include <numeric>

namespace taper {

bool is_norm(Slot slot) {
  return slot == Slot::kAttentionNorm || slot == Slot::kMlpNorm || slot == Slot::kFinalNorm;
}

bool is_in_block(Slot slot) { return slot >= Slot::kAttentionNorm && slot <= Slot::kDown; }

int64_t Part::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Architecture::Architecture(const ModelConfig& config) : config_(config) {
  const ModelConfig& c = config_;
  const int64_t d = c.width, f = c.ffn_width;
  const auto add = [&](Slot slot, int64_t layer, std::vector<int64_t> shape, bool bias = false,
                       int reads = -1) {
    parts_.push_back({{slot, layer}, std::move(shape), bias, reads});
  };
  const auto add_norm = [&](Slot slot, int64_t layer) {
    norms_.push_back({slot, layer});
    add(slot, layer, {d}, c.norm == NormKind::kLayerNorm);
    return static_cast<int>(norms_.size()) - 1;
  };

  add(Slot::kEmbedding, -1, {c.vocab_size, d});
  if (c.positions == PositionKind::kLearned) add(Slot::kPositions, -1, {c.context, d});
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const int attention = add_norm(Slot::kAttentionNorm, i);
    add(Slot::kQ, i, {c.q_width(), d}, c.qkv_bias, attention);
    add(Slot::kK, i, {c.kv_width(), d}, c.qkv_bias, attention);
    add(Slot::kV, i, {c.kv_width(), d}, c.qkv_bias, attention);
    add(Slot::kAttentionOut, i, {d, c.q_width()}, c.linear_bias);
    const int mlp = add_norm(Slot::kMlpNorm, i);
    if (c.mlp == MlpKind::kSwiGlu) add(Slot::kGate, i, {f, d}, c.linear_bias, mlp);
    add(Slot::kUp, i, {f, d}, c.linear_bias, mlp);
    add(Slot::kDown, i, {d, f}, c.linear_bias);
  }
  const int final_norm = add_norm(Slot::kFinalNorm, -1);
  if (!c.tied_head) add(Slot::kHead, -1, {c.vocab_size, d}, false, final_norm);
}

std::vector<Place> Architecture::readers(int norm) const {
  std::vector<Place> places;
  for (const Part& part : parts_)
    if (part.reads == norm) places.push_back(part.place);
  const bool is_final = norm + 1 == static_cast<int>(norms_.size());
  if (is_final && config_.tied_head) places.push_back(head());
  return places;
}

int64_t Architecture::num_parameters() const {
  int64_t total = 0;
  for (const Part& part : parts_) total += part.size() + (part.bias ? part.shape[0] : 0);
  return total;
}

}  // namespace taper
