// Vector helpers for the kernels, compiled once for every Highway target: loads and stores that
// convert, parts of vectors at the end of a row, sums, exponentials.

// Highway's include guard: the file is read again for each target.
#if defined(TAPER_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPER_KERNELS_SIMD_INL_H_
#undef TAPER_KERNELS_SIMD_INL_H_
#else
#define TAPER_KERNELS_SIMD_INL_H_
#endif

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/bf16.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Scalar = hn::TFromD<D>;

// How many lanes of a vector hold elements: all of them, or the first `count`.
struct AllLanes {};
struct FirstLanes {
  size_t count;
};

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Scalar<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const bf16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, &from->bits);
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, Scalar<D>* to) {
  hn::StoreU(v, d, to);
}

// Rounds to nearest even; NaN stays NaN (core/bf16.h).
template <class D>
HWY_INLINE void store([[maybe_unused]] D d, hn::Vec<D> v, bf16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d32, 0x7fffu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000u));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto upper = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, upper)), d16, &to->bits);
}

template <class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* from, AllLanes) {
  return load(d, from);
}

template <class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* from, FirstLanes lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
  for (size_t i = 0; i < lanes.count; ++i) buffer[i] = from[i];
  return load(d, buffer);
}

template <class D, typename T>
HWY_INLINE void store(D d, hn::Vec<D> v, T* to, AllLanes) {
  store(d, v, to);
}

template <class D, typename T>
HWY_INLINE void store(D d, hn::Vec<D> v, T* to, FirstLanes lanes) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  store(d, v, buffer);
  for (size_t i = 0; i < lanes.count; ++i) to[i] = buffer[i];
}

// body(i, lanes) over [0, count): whole vectors, then the rest.
template <class D, class Body>
HWY_INLINE void for_each_vector(D d, int64_t count, const Body& body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, AllLanes{});
  if (i < count) body(i, FirstLanes{static_cast<size_t>(count - i)});
}

template <class D>
HWY_INLINE Scalar<D> sum_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class D>
HWY_INLINE Scalar<D> max_lanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// Clamps that let NaN through.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D d, hn::Vec<D> v, Scalar<D> bound) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  const auto b = hn::Set(d, bound);
  return hn::IfThenElse(hn::Lt(v, b), b, v);
#else
  return hn::Max(hn::Set(d, bound), v);  // x86 returns the second operand when one is NaN
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> at_most(D d, hn::Vec<D> v, Scalar<D> bound) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  const auto b = hn::Set(d, bound);
  return hn::IfThenElse(hn::Gt(v, b), b, v);
#else
  return hn::Min(hn::Set(d, bound), v);
#endif
}

// 2^f for |f| <= 1/2: minimax polynomial, relative error 9e-8, exact at 0.
template <class D>
HWY_INLINE hn::Vec<D> exp2_fraction(D d, hn::Vec<D> f) {
  auto p = hn::Set(d, 0.00132647388f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00967151669f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555073375f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022242f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693146978f));
  return hn::MulAdd(p, f, hn::Set(d, 1.0f));
}

// Adding 1.5 * 2^23 rounds a float to the nearest integer, which is then in the low bits of the
// sum.
inline constexpr float kRoundingShift = 12582912.0f;

// p * 2^n, n the integer in the low bits of `shifted`: added to the exponent field.
template <class D>
HWY_INLINE hn::Vec<D> scale_by_power(D d, hn::Vec<D> p, hn::Vec<D> shifted) {
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

#if HWY_TARGET <= HWY_AVX3
// p * 2^n in one instruction.
HWY_INLINE hn::Vec512<float> scalef(hn::Vec512<float> p, hn::Vec512<float> n) {
  return hn::Vec512<float>{_mm512_scalef_ps(p.raw, n.raw)};
}
HWY_INLINE hn::Vec256<float> scalef(hn::Vec256<float> p, hn::Vec256<float> n) {
  return hn::Vec256<float>{_mm256_scalef_ps(p.raw, n.raw)};
}
template <size_t kLanes>
HWY_INLINE hn::Vec128<float, kLanes> scalef(hn::Vec128<float, kLanes> p,
                                            hn::Vec128<float, kLanes> n) {
  return hn::Vec128<float, kLanes>{_mm_scalef_ps(p.raw, n.raw)};
}
#endif

// 2^x for x <= 126, relative error 1.5e-7; below -126 between 0 and 2^-126. NaN stays NaN.
template <class D>
requires std::same_as < Scalar<D>,
float > HWY_INLINE hn::Vec<D> exp2(D d, hn::Vec<D> x) {
#if HWY_TARGET <= HWY_AVX3
  const auto n = hn::Round(x);
  return scalef(exp2_fraction(d, hn::Sub(x, n)), n);
#else
  x = at_least(d, x, -126.0f);
  const auto shift = hn::Set(d, kRoundingShift);
  const auto shifted = hn::Add(x, shift);
  const auto f = hn::Sub(x, hn::Sub(shifted, shift));
  return scale_by_power(d, exp2_fraction(d, f), shifted);
#endif
}

template <class D>
requires std::same_as < Scalar<D>,
double > HWY_INLINE hn::Vec<D> exp2(D d, hn::Vec<D> x) {
  return hn::Exp(d, hn::Mul(x, hn::Set(d, 0.693147180559945309417)));
}

// e^x, relative error 2e-7, clamped to [-87, 87]: never 0, never infinite. NaN stays NaN.
template <class D>
requires std::same_as < Scalar<D>,
float > HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  x = at_most(d, at_least(d, x, -87.0f), 87.0f);
  const auto shift = hn::Set(d, kRoundingShift);
  const auto log2e = hn::Set(d, 1.44269504f);
  const auto shifted = hn::MulAdd(x, log2e, shift);
  const auto n = hn::Sub(shifted, shift);
  // ln 2 in two parts keeps x - n ln 2 exact.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  return scale_by_power(d, exp2_fraction(d, hn::Mul(r, log2e)), shifted);
}

template <class D>
requires std::same_as < Scalar<D>,
double > HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> x) {
  return hn::Exp(d, at_most(d, at_least(d, x, -700.0), 700.0));
}

}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
