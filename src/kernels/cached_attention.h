// Attention of one query head over cached keys and values:
//   out = sum over t of softmax(scale * q k_t)_t v_t,  t in [0, length)
// Keys and values are stored position-minor, [K, stride], so that the work runs along t in whole
// vectors for any head width. Softmax statistics are fp32. The result depends on the length, not on
// what lies behind it in the cache. Thread-safe on disjoint outputs. No allocation, no exception.
#pragma once

#include <cstdint>

namespace taper {

// Strides and the score buffer are multiples of this many floats: no SIMD width here is larger.
constexpr int64_t kAttentionAlignment = 16;

struct CachedAttentionArgs {
  const float* q;       // [K]
  const float* keys;    // [K, stride]
  const float* values;  // [K, stride]
  int64_t stride;       // multiple of kAttentionAlignment, at least `length`
  int64_t length;       // at least 1
  int64_t head_width;   // K
  float scale;          // 1 / sqrt(K)
  float* scores;        // [stride], overwritten
  float* out;           // [K]
};

void cached_attention(const CachedAttentionArgs& args);

}  // namespace taper
