#include "kernels/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

int64_t Chains(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  // Twelve chains: latency times the units of any CPU here, within 16 registers. Each starts at
  // another value, or the compiler sees that they are equal and computes one.
  const auto start = [&](float offset) HWY_ATTR { return hn::Set(d, *sink + offset); };
  auto x0 = start(0), x1 = start(1), x2 = start(2), x3 = start(3), x4 = start(4), x5 = start(5);
  auto x6 = start(6), x7 = start(7), x8 = start(8), x9 = start(9), x10 = start(10), x11 = start(11);
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
    x10 = hn::MulAdd(x10, a, b);
    x11 = hn::MulAdd(x11, a, b);
  }
  const auto sum0 = hn::Add(hn::Add(x0, x1), hn::Add(x2, x3));
  const auto sum1 = hn::Add(hn::Add(x4, x5), hn::Add(x6, x7));
  const auto sum2 = hn::Add(hn::Add(x8, x9), hn::Add(x10, x11));
  *sink = sum_lanes(d, hn::Add(sum0, hn::Add(sum1, sum2)));
  return rounds * 12 * 2 * static_cast<int64_t>(hn::Lanes(d));
}

int64_t Exponentials(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  auto x = hn::Set(d, *sink);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::Add(s0, exp2(d, hn::Sub(x, hn::Set(d, 0.25f))));
    s1 = hn::Add(s1, exp2(d, hn::Sub(x, hn::Set(d, 0.5f))));
    s2 = hn::Add(s2, exp2(d, hn::Sub(x, hn::Set(d, 0.75f))));
    s3 = hn::Add(s3, exp2(d, x));
    x = hn::Sub(x, hn::Set(d, 1e-7f));  // no exponential is that of the round before
  }
  *sink = sum_lanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  return rounds * 4 * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(Chains);
HWY_EXPORT(Exponentials);

int64_t run_fma_chains(int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(Chains)(rounds, sink);
}

int64_t run_exponentials(int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(Exponentials)(rounds, sink);
}

}  // namespace taper
#endif
