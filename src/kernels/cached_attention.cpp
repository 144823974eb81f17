#include "kernels/cached_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cached_attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// scores[t] = q k_t for kVectors vectors of positions from t on.
template <int kVectors>
HWY_INLINE void score_block(const CachedAttentionArgs& a, int64_t t, int64_t lanes) {
  const D d;
  V sum[kVectors];
  for (V& value : sum) value = hn::Zero(d);
  const float* keys = a.keys + t;
  for (int64_t k = 0; k < a.head_width; ++k, keys += a.stride) {
    const V q = hn::Set(d, a.q[k]);
    for (int i = 0; i < kVectors; ++i)
      sum[i] = hn::MulAdd(q, hn::LoadU(d, keys + i * lanes), sum[i]);
  }
  const V scale = hn::Set(d, a.scale);
  for (int i = 0; i < kVectors; ++i)
    hn::StoreU(hn::Mul(sum[i], scale), d, a.scores + t + i * lanes);
}

// scores[t] <- exp(scores[t] - max) for t < length, 0 up to the end of the last vector; returns the
// sum.
HWY_INLINE float exponentials(const CachedAttentionArgs& a, int64_t lanes) {
  const D d;
  const int64_t whole = a.length / lanes * lanes;
  const auto rest = hn::FirstN(d, static_cast<size_t>(a.length - whole));
  const V lowest = hn::Set(d, -3.4e38f);
  V largest = lowest;
  for (int64_t t = 0; t < whole; t += lanes) largest = hn::Max(largest, hn::LoadU(d, a.scores + t));
  if (whole < a.length) {
    const V last = hn::LoadU(d, a.scores + whole);
    largest = hn::Max(largest, hn::IfThenElse(rest, last, lowest));
  }
  largest = hn::MaxOfLanes(d, largest);
  V sum = hn::Zero(d);
  for (int64_t t = 0; t < whole; t += lanes) {
    const V e = exp(d, hn::Sub(hn::LoadU(d, a.scores + t), largest));
    hn::StoreU(e, d, a.scores + t);
    sum = hn::Add(sum, e);
  }
  if (whole < a.length) {
    const V shifted = hn::Sub(hn::LoadU(d, a.scores + whole), largest);
    const V e = hn::IfThenElseZero(rest, exp(d, hn::IfThenElseZero(rest, shifted)));
    hn::StoreU(e, d, a.scores + whole);
    sum = hn::Add(sum, e);
  }
  return sum_lanes(d, sum);
}

// out[k] = factor * sum over t of scores[t] * values[k, t] for kWidth channels from k on.
template <int kWidth>
HWY_INLINE void mix_values(const CachedAttentionArgs& a, int64_t k, float factor, int64_t lanes) {
  const D d;
  V sum[kWidth];
  for (V& value : sum) value = hn::Zero(d);
  const float* values = a.values + k * a.stride;
  int64_t t = 0;
  for (; t + lanes <= a.length; t += lanes) {
    const V p = hn::LoadU(d, a.scores + t);
    for (int i = 0; i < kWidth; ++i)
      sum[i] = hn::MulAdd(p, hn::LoadU(d, values + i * a.stride + t), sum[i]);
  }
  if (t < a.length) {
    const V p = hn::LoadU(d, a.scores + t);
    // What an earlier, longer sequence left behind could be infinite: zero times it is not zero.
    const auto rest = hn::FirstN(d, static_cast<size_t>(a.length - t));
    for (int i = 0; i < kWidth; ++i) {
      const V v = hn::IfThenElseZero(rest, hn::LoadU(d, values + i * a.stride + t));
      sum[i] = hn::MulAdd(p, v, sum[i]);
    }
  }
  for (int i = 0; i < kWidth; ++i) a.out[k + i] = factor * sum_lanes(d, sum[i]);
}

void attention_target(const CachedAttentionArgs& a) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t t = 0;
  for (; t + 8 * lanes <= a.length; t += 8 * lanes) score_block<8>(a, t, lanes);
  for (; t < a.length; t += lanes) score_block<1>(a, t, lanes);
  const float factor = 1.0f / exponentials(a, lanes);
  int64_t k = 0;
  for (; k + 8 <= a.head_width; k += 8) mix_values<8>(a, k, factor, lanes);
  for (; k < a.head_width; ++k) mix_values<1>(a, k, factor, lanes);
}

}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(attention_target);

void cached_attention(const CachedAttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_target)(args);
}

}  // namespace taper
#endif
