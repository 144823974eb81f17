#include "kernels/cross_entropy.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

template <typename T>
HWY_INLINE void fill_zero(int64_t count, T* z) {
  const hn::ScalableTag<Real<T>> d;
  for_each_vector(d, count,
                  [&](int64_t i, auto part) HWY_ATTR { store(d, hn::Zero(d), z + i, part); });
}

template <typename R>
HWY_INLINE void max_and_square(int64_t count, const R* z, R& max, R& square) {
  const hn::ScalableTag<R> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto m0 = hn::Set(d, z[0]), m1 = m0;
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto x0 = load(d, z + i), x1 = load(d, z + i + lanes);
    m0 = hn::Max(m0, x0);
    m1 = hn::Max(m1, x1);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
  }
  max = max_lanes(d, hn::Max(m0, m1));
  square = sum_lanes(d, hn::Add(s0, s1));
  for (; i < count; ++i) {
    max = z[i] > max ? z[i] : max;
    square += z[i] * z[i];
  }
}

// Sum of e^(z - max); the exponentials replace z when kKeep.
template <bool kKeep, typename R>
HWY_INLINE R exponentials(int64_t count, R max, R* z) {
  const hn::ScalableTag<R> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, max), log2e = hn::Set(d, static_cast<R>(1.44269504088896340736));
  const auto exponential = [&](auto x) HWY_ATTR { return exp2(d, hn::Mul(hn::Sub(x, m), log2e)); };
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto e0 = exponential(load(d, z + i));
    const auto e1 = exponential(load(d, z + i + lanes));
    if constexpr (kKeep) {
      store(d, e0, z + i);
      store(d, e1, z + i + lanes);
    }
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
  }
  R sum = sum_lanes(d, hn::Add(s0, s1));
  for_each_vector(d, count - i, [&](int64_t j, auto part) HWY_ATTR {
    R rest[hn::MaxLanes(d)];
    const auto e = exponential(load(d, z + i + j, part));
    store(d, e, rest);
    if constexpr (kKeep) store(d, e, z + i + j, part);
    const int64_t left = count - i - j;
    for (int64_t lane = 0; lane < left && lane < lanes; ++lane) sum += rest[lane];
  });
  return sum;
}

template <typename T>
HWY_INLINE void all_rows(const CrossEntropyArgs<T>& args, Range rows) {
  using R = Real<T>;
  const hn::ScalableTag<R> d;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    R* z = args.logits + row * args.vocab;
    T* dz = args.gradient ? args.gradient + row * args.vocab : nullptr;
    const int64_t target = args.targets[row];
    if (target < 0) {
      args.losses[row] = args.square_norms[row] = 0;
      if (args.gradient) fill_zero(args.vocab, dz);
      continue;
    }
    R max, square;
    max_and_square(args.vocab, z, max, square);
    const R at_target = z[target];
    const R sum = args.gradient ? exponentials<true>(args.vocab, max, z)
                                : exponentials<false>(args.vocab, max, z);
    args.losses[row] = std::log(static_cast<double>(sum)) +
                       (static_cast<double>(max) - static_cast<double>(at_target));
    args.square_norms[row] = square;
    if (args.gradient) {
      z[target] -= sum;
      const auto factor = hn::Set(d, args.gradient_scale / sum);
      for_each_vector(d, args.vocab, [&](int64_t i, auto part) HWY_ATTR {
        store(d, hn::Mul(load(d, z + i, part), factor), dz + i, part);
      });
    }
  }
}

void RowsF32(const CrossEntropyArgs<float>& args, Range rows) { all_rows(args, rows); }
void RowsBF16(const CrossEntropyArgs<bf16>& args, Range rows) { all_rows(args, rows); }
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
void RowsF64(const CrossEntropyArgs<double>& args, Range rows) { all_rows(args, rows); }
#endif

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(RowsF32);
HWY_EXPORT(RowsBF16);

template <>
void cross_entropy_rows<float>(const CrossEntropyArgs<float>& args, Range rows) {
  HWY_DYNAMIC_DISPATCH(RowsF32)(args, rows);
}
template <>
void cross_entropy_rows<bf16>(const CrossEntropyArgs<bf16>& args, Range rows) {
  HWY_DYNAMIC_DISPATCH(RowsBF16)(args, rows);
}
template <>
void cross_entropy_rows<double>(const CrossEntropyArgs<double>& args, Range rows) {
  HWY_STATIC_DISPATCH(RowsF64)(args, rows);
}

}  // namespace taper
#endif
