#include "kernels/taper_norm.h"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/taper_norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

template <typename T>
HWY_INLINE Real<T> sum_of_squares(int64_t width, const T* h) {
  const hn::ScalableTag<Real<T>> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= width; i += 4 * lanes) {
    const auto x0 = load(d, h + i), x1 = load(d, h + i + lanes);
    const auto x2 = load(d, h + i + 2 * lanes), x3 = load(d, h + i + 3 * lanes);
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  for_each_vector(d, width - i, [&](int64_t j, auto part) HWY_ATTR {
    const auto x = load(d, h + i + j, part);
    s0 = hn::MulAdd(x, x, s0);
  });
  return sum_lanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

template <typename T>
HWY_INLINE Real<T> row_scale(int64_t width, Real<T> eps, const T* h) {
  return std::sqrt(sum_of_squares(width, h) / static_cast<Real<T>>(width) + eps);
}

template <typename T>
HWY_INLINE void add_sums(int64_t width, const Real<T>* gamma, const T* h, Real<T> r,
                         TaperNormSums& sums) {
  const hn::ScalableTag<Real<T>> d;
  auto sum = hn::Zero(d);
  for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
    const auto x = hn::Mul(load(d, h + i, part), load(d, gamma + i, part));
    sum = hn::MulAdd(x, x, sum);
  });
  const double square = sum_lanes(d, sum);
  sums.numerator += square / r;
  sums.denominator += square;
  sums.scale += r;
  ++sums.rows;
}

// y = h * coefficient(gamma, gamma_t), the statistic already in `a` = g / r; b = (1 - g) c.
template <typename T, typename Y>
HWY_INLINE void apply_row(const TaperNormArgs<Real<T>>& args, Real<T> a, Real<T> b, const T* h,
                          Y* y) {
  const hn::ScalableTag<Real<T>> d;
  const auto va = hn::Set(d, a), vb = hn::Set(d, b);
  if (args.gate == 1) {
    for_each_vector(
        d, args.width,
        [&](int64_t i, auto part) HWY_ATTR {
          const auto x = hn::Mul(load(d, h + i, part), va);
          store(d, hn::Mul(x, load(d, args.gamma + i, part)), y + i, part);
        });
  } else if (args.gate == 0) {
    for_each_vector(
        d, args.width,
        [&](int64_t i, auto part) HWY_ATTR {
          const auto coefficient = hn::Mul(vb, load(d, args.gamma_t + i, part));
          store(d, hn::Mul(load(d, h + i, part), coefficient), y + i, part);
        });
  } else {
    for_each_vector(
        d, args.width,
        [&](int64_t i, auto part) HWY_ATTR {
          const auto linear = hn::Mul(vb, load(d, args.gamma_t + i, part));
          const auto coefficient = hn::MulAdd(va, load(d, args.gamma + i, part), linear);
          store(d, hn::Mul(load(d, h + i, part), coefficient), y + i, part);
        });
  }
}

template <typename T, typename Y>
HWY_INLINE void forward(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, Y* y,
                        Real<T>* rstd, TaperNormSums* sums, const uint8_t* mask) {
  const int64_t width = args.width;
  const Real<T> b = args.gate == 1 ? 0 : (1 - args.gate) * args.scale;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = h + row * width;
    Real<T> a = 0;
    if (args.gate != 0) {
      const Real<T> r = row_scale(width, args.eps, x);
      const Real<T> inverse = 1 / r;
      rstd[row] = inverse;
      a = args.gate * inverse;
      if (sums && (!mask || mask[row])) add_sums(width, args.gamma, x, r, *sums);
    }
    apply_row(args, a, b, x, y + row * width);
  }
}

// kRows rows at a time, so that gamma and its gradient are read and written once for all of them.
template <int kRows, bool kResidual, bool kOutput, typename T, typename Y>
HWY_INLINE void backward_rows(const TaperNormArgs<Real<T>>& args, const T* h, const T* dy,
                              const Real<T>* rstd, const T* residual, T* dh, Real<T>* dgamma,
                              Real<T>* dgamma_t, Y* y) {
  using R = Real<T>;
  const hn::ScalableTag<R> d;
  const int64_t width = args.width;
  const auto around = [&](int64_t i, auto part) HWY_ATTR {
    return kResidual ? load(d, residual + i, part) : hn::Zero(d);
  };
  const auto b = hn::Set(d, args.gate == 1 ? 0 : (1 - args.gate) * args.scale);
  if (args.gate == 0) {
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      const auto coefficient = hn::Mul(b, load(d, args.gamma_t + i, part));
      auto sum = hn::Zero(d);
      for (int row = 0; row < kRows; ++row) {
        const int64_t at = row * width + i;
        const auto g = load(d, dy + at, part);
        const auto x = load(d, h + at, part);
        sum = hn::MulAdd(g, x, sum);
        store(d, hn::MulAdd(g, coefficient, around(at, part)), dh + at, part);
        if constexpr (kOutput) store(d, hn::Mul(x, coefficient), y + at, part);
      }
      store(d, hn::MulAdd(b, sum, load(d, dgamma_t + i, part)), dgamma_t + i, part);
    });
    return;
  }
  R a[kRows], k[kRows];
  for (int row = 0; row < kRows; ++row) {
    auto dot = hn::Zero(d);
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      const auto u = hn::Mul(load(d, dy + row * width + i, part), load(d, args.gamma + i, part));
      dot = hn::MulAdd(u, load(d, h + row * width + i, part), dot);
    });
    const R inverse = rstd[row];
    a[row] = args.gate * inverse;
    k[row] = a[row] * inverse * inverse * sum_lanes(d, dot) / static_cast<R>(width);
  }
  const bool mixed = args.gate != 1;
  for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
    const auto gamma = load(d, args.gamma + i, part);
    const auto linear = mixed ? hn::Mul(b, load(d, args.gamma_t + i, part)) : hn::Zero(d);
    auto sum = load(d, dgamma + i, part);
    auto sum_t = hn::Zero(d);
    for (int row = 0; row < kRows; ++row) {
      const int64_t at = row * width + i;
      const auto g = load(d, dy + at, part);
      const auto x = load(d, h + at, part);
      const auto va = hn::Set(d, a[row]);
      const auto product = hn::Mul(g, x);
      const auto coefficient = hn::MulAdd(va, gamma, linear);
      sum = hn::MulAdd(va, product, sum);
      sum_t = hn::Add(product, sum_t);
      const auto direct = hn::MulAdd(g, coefficient, around(at, part));
      store(d, hn::NegMulAdd(hn::Set(d, k[row]), x, direct), dh + at, part);
      if constexpr (kOutput)
        store(d, mixed ? hn::Mul(x, coefficient) : hn::Mul(hn::Mul(x, va), gamma), y + at, part);
    }
    store(d, sum, dgamma + i, part);
    if (mixed) store(d, hn::MulAdd(b, sum_t, load(d, dgamma_t + i, part)), dgamma_t + i, part);
  });
}

template <bool kResidual, bool kOutput, typename T, typename Y>
HWY_INLINE void backward(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, const T* dy,
                         const Real<T>* rstd, const T* residual, T* dh, Real<T>* dgamma,
                         Real<T>* dgamma_t, Y* y) {
  constexpr int kBlock = 4;
  const int64_t width = args.width;
  int64_t row = rows.begin;
  const auto step = [&](auto count) HWY_ATTR {
    const int64_t at = row * width;
    backward_rows<count(), kResidual, kOutput>(args, h + at, dy + at, rstd + row,
                                               kResidual ? residual + at : nullptr, dh + at, dgamma,
                                               dgamma_t, kOutput ? y + at : nullptr);
    row += count();
  };
  while (row + kBlock <= rows.end) step(std::integral_constant<int, kBlock>());
  while (row < rows.end) step(std::integral_constant<int, 1>());
}

template <typename T>
HWY_INLINE void scale_rows(Range rows, int64_t width, Real<T> eps, const T* h, Real<T>* r) {
  for (int64_t row = rows.begin; row < rows.end; ++row)
    r[row] = row_scale(width, eps, h + row * width);
}

template <typename T>
HWY_INLINE void anchor_rows(Range rows, int64_t width, Real<T> target, Real<T> weight, const T* h,
                            const Real<T>* r, const uint8_t* mask, T* dh) {
  const hn::ScalableTag<Real<T>> d;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const bool counted = !mask || mask[row];
    const Real<T> slope = 2 * weight * (r[row] - target) / (static_cast<Real<T>>(width) * r[row]);
    if (!counted) continue;
    const auto factor = hn::Set(d, slope);
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      const int64_t at = row * width + i;
      store(d, hn::MulAdd(factor, load(d, h + at, part), load(d, dh + at, part)), dh + at, part);
    });
  }
}

// Dispatch needs plain functions: one set a pair of types, and one a type.
#define TAPER_NORM_KERNELS(Name, T, Y)                                                         \
  void Forward##Name(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, Y* y,         \
                     Real<T>* rstd, TaperNormSums* sums, const uint8_t* mask) {                \
    forward(args, rows, h, y, rstd, sums, mask);                                               \
  }                                                                                            \
  void Backward##Name(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, const T* dy, \
                      const Real<T>* rstd, const T* residual, T* dh, Real<T>* dgamma,          \
                      Real<T>* dgamma_t, Y* y) {                                               \
    if (residual && y)                                                                         \
      backward<true, true>(args, rows, h, dy, rstd, residual, dh, dgamma, dgamma_t, y);        \
    else if (residual)                                                                         \
      backward<true, false>(args, rows, h, dy, rstd, residual, dh, dgamma, dgamma_t, y);       \
    else if (y)                                                                                \
      backward<false, true>(args, rows, h, dy, rstd, residual, dh, dgamma, dgamma_t, y);       \
    else                                                                                       \
      backward<false, false>(args, rows, h, dy, rstd, residual, dh, dgamma, dgamma_t, y);      \
  }
TAPER_NORM_KERNELS(F32, float, float)
TAPER_NORM_KERNELS(F32ToBF16, float, bf16)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_NORM_KERNELS(F64, double, double)
#endif
#undef TAPER_NORM_KERNELS

#define TAPER_ANCHOR_KERNELS(Name, T)                                                      \
  void Scale##Name(Range rows, int64_t width, Real<T> eps, const T* h, Real<T>* r) {       \
    scale_rows(rows, width, eps, h, r);                                                    \
  }                                                                                        \
  void Anchor##Name(Range rows, int64_t width, Real<T> target, Real<T> weight, const T* h, \
                    const Real<T>* r, const uint8_t* mask, T* dh) {                        \
    anchor_rows(rows, width, target, weight, h, r, mask, dh);                              \
  }
TAPER_ANCHOR_KERNELS(F32, float)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_ANCHOR_KERNELS(F64, double)
#endif
#undef TAPER_ANCHOR_KERNELS

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

#define TAPER_NORM_DISPATCH(Name, T, Y, DISPATCH)                                                \
  template <>                                                                                    \
  void taper_rms_norm_forward<T, Y>(const TaperNormArgs<Real<T>>& args, Range rows, const T* h,  \
                                    Y* y, Real<T>* rstd, TaperNormSums* sums,                    \
                                    const uint8_t* mask) {                                       \
    DISPATCH(Forward##Name)(args, rows, h, y, rstd, sums, mask);                                 \
  }                                                                                              \
  template <>                                                                                    \
  void taper_rms_norm_backward<T, Y>(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, \
                                     const T* dy, const Real<T>* rstd, const T* residual, T* dh, \
                                     Real<T>* dgamma, Real<T>* dgamma_t, Y* y) {                 \
    DISPATCH(Backward##Name)                                                                     \
    (args, rows, h, dy, rstd, residual, dh, dgamma, dgamma_t, y);                                \
  }
HWY_EXPORT(ForwardF32);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(ForwardF32ToBF16);
HWY_EXPORT(BackwardF32ToBF16);
TAPER_NORM_DISPATCH(F32, float, float, HWY_DYNAMIC_DISPATCH)
TAPER_NORM_DISPATCH(F32ToBF16, float, bf16, HWY_DYNAMIC_DISPATCH)
TAPER_NORM_DISPATCH(F64, double, double, HWY_STATIC_DISPATCH)
#undef TAPER_NORM_DISPATCH

#define TAPER_ANCHOR_DISPATCH(Name, T, DISPATCH)                                                \
  template <>                                                                                   \
  void residual_scale_rows<T>(Range rows, int64_t width, Real<T> eps, const T* h, Real<T>* r) { \
    DISPATCH(Scale##Name)(rows, width, eps, h, r);                                              \
  }                                                                                             \
  template <>                                                                                   \
  void anchor_backward_rows<T>(Range rows, int64_t width, Real<T> target, Real<T> weight,       \
                               const T* h, const Real<T>* r, const uint8_t* mask, T* dh) {      \
    DISPATCH(Anchor##Name)(rows, width, target, weight, h, r, mask, dh);                        \
  }
HWY_EXPORT(ScaleF32);
HWY_EXPORT(AnchorF32);
TAPER_ANCHOR_DISPATCH(F32, float, HWY_DYNAMIC_DISPATCH)
TAPER_ANCHOR_DISPATCH(F64, double, HWY_STATIC_DISPATCH)
#undef TAPER_ANCHOR_DISPATCH

}  // namespace taper
#endif
