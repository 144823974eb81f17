// What an op needs beside its operands: the threads it may use, and where its time is noted.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "core/parallel.h"

namespace taper {

enum class OpKind {
  kFold,
  kEmbedding,
  kNorm,
  kLinear,
  kAttention,
  kMlp,
  kHead,
  kGather,
  kOther,
  kCount
};

inline constexpr std::array<const char*, static_cast<size_t>(OpKind::kCount)> kOpNames = {
    "weights",
    "embedding",
    "norm",
    "linear products",
    "attention",
    "swiglu",
    "head + cross-entropy",
    "gradients of all threads",
    "other"};

enum class Direction { kForward, kBackward };

struct OpProfile {
  std::array<double, static_cast<size_t>(OpKind::kCount)> forward{}, backward{};  // seconds
};

struct OpContext {
  ThreadPool& team;
  OpProfile* profile = nullptr;  // null: nothing is timed
};

// Notes the time of a scope. Scopes of one context do not nest.
class OpTimer {
 public:
  OpTimer(OpProfile* profile, OpKind kind, Direction direction)
      : to_(!profile ? nullptr
                     : &(direction == Direction::kForward
                             ? profile->forward
                             : profile->backward)[static_cast<size_t>(kind)]) {
    if (to_) start_ = std::chrono::steady_clock::now();
  }
  OpTimer(const OpContext& context, OpKind kind, Direction direction)
      : OpTimer(context.profile, kind, direction) {}
  ~OpTimer() {
    if (to_)
      *to_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

 private:
  double* to_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace taper
