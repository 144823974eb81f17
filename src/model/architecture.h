// What a model consists of, made from its configuration: the weights and norms of every block,
// their shapes, which linear layers have biases, and which norm each of them reads. The one place
// that knows: checkpoints, training, engine, folding and foreign formats walk over it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/config.h"

namespace taper {

// The kinds of tensors, in execution order. Shapes are (out, in) for linear layers.
//   V vocabulary, D width, H heads, KV key/value heads, K head width, F hidden width, T context
enum class Slot {
  kEmbedding,      // [V, D]
  kPositions,      // [T, D] where positions are learned
  kAttentionNorm,  // [D]
  kQ,              // [H K, D]
  kK,              // [KV K, D]
  kV,              // [KV K, D]
  kAttentionOut,   // [D, H K]
  kMlpNorm,        // [D]
  kGate,           // [F, D] where the MLP is gated
  kUp,             // [F, D]
  kDown,           // [D, F]
  kFinalNorm,      // [D]
  kHead,           // [V, D] where it is not the embedding
};

bool is_norm(Slot slot);
bool is_in_block(Slot slot);  // stands once in every block, not once in the model

// One tensor's place: a slot of block `layer`, or of the model (layer -1).
struct Place {
  Slot slot;
  int64_t layer = -1;

  auto operator<=>(const Place&) const = default;
};

struct Part {
  Place place;
  std::vector<int64_t> shape;
  bool bias = false;  // a bias [shape[0]] beside the weight (a norm's is beta)
  int reads = -1;     // the norm whose output it multiplies, an index into norms(); -1: none

  int64_t size() const;  // of the weight
};

class Architecture {
 public:
  explicit Architecture(const ModelConfig& config);

  const ModelConfig& config() const& { return config_; }
  // Everything that has a tensor, in execution order; a tied head has none of its own.
  const std::vector<Part>& parts() const& { return parts_; }
  // Where the norms are, in execution order: of each block the attention's and the MLP's, then the
  // final one. "Norm i" is the i-th of these everywhere.
  const std::vector<Place>& norms() const& { return norms_; }
  // Of a temporary they would dangle in a range-for.
  const ModelConfig& config() && = delete;
  const std::vector<Part>& parts() && = delete;
  const std::vector<Place>& norms() && = delete;
  // Whose weights multiply norm i's output. The final norm's is the head, or the embedding when
  // tied.
  std::vector<Place> readers(int norm) const;
  Place head() const { return {config_.tied_head ? Slot::kEmbedding : Slot::kHead}; }
  int64_t num_parameters() const;  // of the plain model: norms and biases included

 private:
  ModelConfig config_;
  std::vector<Part> parts_;
  std::vector<Place> norms_;
};

}  // namespace taper
