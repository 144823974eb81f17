// One sequence running through a model: its KV cache, its position, its work space.
//
// A position is an index in the cache and an angle of the rotary embedding; Session is the only
// owner of it. Prefill (many tokens a call) and decoding (one) run the same kernels in the same
// order of operations: the logits of a token do not depend on how its sequence was cut into calls.
// Not thread-safe. Sessions of one Model are independent, but share a ThreadPool one call at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "infer/model.h"
#include "kernels/rope.h"

namespace taper {

// Sees the input rows [rows, D] of a norm before it runs, whatever its form (a folded norm has an
// input too, and the final norm's is the residual stream after the last layer). Rows are
// consecutive positions from Session::position() on, which does not move during the call. Calls
// come in order of execution.
using NormObserver = std::function<void(const NormSite& site, const float* h_rows, int64_t rows)>;

enum class LogitRows { kNone, kLast, kAll };

class Session {
 public:
  // Room for `capacity` positions, at most the model's context: ConfigError otherwise.
  // The model and the pool must outlive the session.
  Session(const Model& model, ThreadPool& pool, int64_t capacity);

  int64_t capacity() const { return capacity_; }
  int64_t position() const { return position_; }  // tokens in the cache
  // Forgets the tokens from `position` on; at most position().
  void rewind(int64_t position = 0);

  // Appends tokens to the sequence. Returns logits [n, V], n = 0, 1 or tokens.size(), which the
  // caller may overwrite, valid until the next call. ConfigError when they do not fit the capacity,
  // FormatError for an id beyond the vocabulary; the session is then unchanged.
  std::span<float> forward(std::span<const int32_t> tokens, LogitRows rows);

  void set_norm_observer(NormObserver observer) { observer_ = std::move(observer); }

 private:
  struct Workspace {
    std::vector<float> h, x, q, k, v, attention, gate_up, ffn, rstd, scores, logits;
  };

  void run_chunk(std::span<const int32_t> tokens, LogitRows rows, float* logits);
  void run_attention(const Layer& layer, int64_t index, int64_t rows);
  void run_ffn(const Layer& layer, int64_t rows);
  const float* run_norm(const Norm& norm, const float* h, int64_t rows, float* y);

  const Model& model_;
  ThreadPool& pool_;
  int64_t capacity_;
  int64_t stride_;  // capacity rounded up to whole vectors
  int64_t position_ = 0;
  RopeTable<float> rope_;
  // Per layer [kv head][K][stride]: keys and values lie position-minor, so that both attention
  // products run along contiguous memory whatever the head width.
  std::vector<float> keys_, values_;
  Workspace work_;
  NormObserver observer_;
};

}  // namespace taper
