// Where the time of a training pass goes, per op, forward and backward.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace taper {

enum class PassOp {
  kOperands,
  kEmbedding,
  kNorm,
  kProducts,
  kAttention,
  kSwiglu,
  kHead,
  kGather,
  kOther,
  kCount
};

inline constexpr std::array<const char*, static_cast<size_t>(PassOp::kCount)> kPassOpNames = {
    "weights",
    "embedding",
    "norm",
    "linear products",
    "attention",
    "swiglu",
    "head + cross-entropy",
    "gradients of all threads",
    "other"};

struct PassProfile {
  std::array<double, static_cast<size_t>(PassOp::kCount)> forward{}, backward{};  // seconds
};

// Adds the time of a scope. Scopes of one pass do not nest.
class PassTimer {
 public:
  PassTimer(PassProfile* profile, PassOp op, bool backward)
      : to_(!profile
                ? nullptr
                : &(backward ? profile->backward : profile->forward)[static_cast<size_t>(op)]) {
    if (to_) start_ = std::chrono::steady_clock::now();
  }
  ~PassTimer() {
    if (to_)
      *to_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  PassTimer(const PassTimer&) = delete;
  PassTimer& operator=(const PassTimer&) = delete;

 private:
  double* to_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace taper
