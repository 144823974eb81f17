#include "kernels/folded_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/folded_weight.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

template <typename R, typename T>
HWY_INLINE void convert_all(const R* from, int64_t count, T* to) {
  const hn::ScalableTag<R> d;
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    store(d, load(d, from + i, part), to + i, part);
  });
}

template <typename R>
HWY_INLINE void add_all(const R* from, int64_t count, R* to) {
  const hn::ScalableTag<R> d;
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    store(d, hn::Add(load(d, to + i, part), load(d, from + i, part)), to + i, part);
  });
}

template <typename T>
HWY_INLINE void fold_rows(Range rows, int64_t in, const Real<T>* weight, const Real<T>* scale,
                          T* to) {
  if (!scale) {
    convert_all(weight + rows.begin * in, rows.size() * in, to + rows.begin * in);
    return;
  }
  const hn::ScalableTag<Real<T>> d;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for_each_vector(
        d, in,
        [&](int64_t i, auto part) HWY_ATTR {
          const auto w = load(d, weight + row * in + i, part);
          store(d, hn::Mul(w, load(d, scale + i, part)), to + row * in + i, part);
        });
  }
}

// kVectors vectors of columns from i on: whole cache lines of each row.
template <int kVectors, typename R, class Part>
HWY_INLINE void backward_columns(const FoldedWeightGradient<R>& args, int64_t i, Part part) {
  const hn::ScalableTag<R> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto c = hn::Set(d, args.scale);
  hn::Vec<decltype(d)> scale[kVectors], sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    scale[v] = hn::Mul(c, load(d, args.gamma_t + i + v * lanes, part));
    sum[v] = hn::Zero(d);
  }
  for (int64_t row = 0; row < args.out; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = row * args.in + i + v * lanes;
      auto g = hn::Zero(d);
      for (R* gradient : args.gradients) {
        g = hn::Add(g, load(d, gradient + at, part));
        store(d, hn::Zero(d), gradient + at, part);
      }
      sum[v] = hn::MulAdd(g, load(d, args.weight + at, part), sum[v]);
      store(d, hn::MulAdd(g, scale[v], load(d, args.dweight + at, part)), args.dweight + at, part);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    R* to = args.dgamma_t + i + v * lanes;
    store(d, hn::MulAdd(c, sum[v], load(d, to, part)), to, part);
  }
}

template <typename R>
HWY_INLINE void backward(const FoldedWeightGradient<R>& args, Range columns) {
  const hn::ScalableTag<R> d;
  const auto block = 4 * static_cast<int64_t>(hn::Lanes(d));
  int64_t i = columns.begin;
  for (; i + block <= columns.end; i += block) backward_columns<4>(args, i, AllLanes{});
  for_each_vector(d, columns.end - i,
                  [&](int64_t j, auto part) HWY_ATTR { backward_columns<1>(args, i + j, part); });
}

void Convert(const float* from, int64_t count, bf16* to) { convert_all(from, count, to); }

#define TAPER_FOLD_KERNELS(Name, T)                                                             \
  void Fold##Name(Range rows, int64_t in, const Real<T>* weight, const Real<T>* scale, T* to) { \
    fold_rows(rows, in, weight, scale, to);                                                     \
  }
TAPER_FOLD_KERNELS(F32, float)
TAPER_FOLD_KERNELS(BF16, bf16)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_FOLD_KERNELS(F64, double)
#endif
#undef TAPER_FOLD_KERNELS

#define TAPER_GRADIENT_KERNELS(Name, R)                                             \
  void Add##Name(const R* from, int64_t count, R* to) { add_all(from, count, to); } \
  void Backward##Name(const FoldedWeightGradient<R>& args, Range columns) {         \
    backward(args, columns);                                                        \
  }
TAPER_GRADIENT_KERNELS(F32, float)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_GRADIENT_KERNELS(F64, double)
#endif
#undef TAPER_GRADIENT_KERNELS

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(Convert);

void convert(const float* from, int64_t count, bf16* to) {
  HWY_DYNAMIC_DISPATCH(Convert)(from, count, to);
}

#define TAPER_FOLD_DISPATCH(Name, T, DISPATCH)                                             \
  template <>                                                                              \
  void fold_weight<T>(Range rows, int64_t in, const Real<T>* weight, const Real<T>* scale, \
                      T* to) {                                                             \
    DISPATCH(Fold##Name)(rows, in, weight, scale, to);                                     \
  }
HWY_EXPORT(FoldF32);
HWY_EXPORT(FoldBF16);
TAPER_FOLD_DISPATCH(F32, float, HWY_DYNAMIC_DISPATCH)
TAPER_FOLD_DISPATCH(BF16, bf16, HWY_DYNAMIC_DISPATCH)
TAPER_FOLD_DISPATCH(F64, double, HWY_STATIC_DISPATCH)
#undef TAPER_FOLD_DISPATCH

#define TAPER_GRADIENT_DISPATCH(Name, R, DISPATCH)                                   \
  template <>                                                                        \
  void add_row<R>(const R* from, int64_t count, R* to) {                             \
    DISPATCH(Add##Name)(from, count, to);                                            \
  }                                                                                  \
  template <>                                                                        \
  void fold_weight_backward<R>(const FoldedWeightGradient<R>& args, Range columns) { \
    DISPATCH(Backward##Name)(args, columns);                                         \
  }
HWY_EXPORT(AddF32);
HWY_EXPORT(BackwardF32);
TAPER_GRADIENT_DISPATCH(F32, float, HWY_DYNAMIC_DISPATCH)
TAPER_GRADIENT_DISPATCH(F64, double, HWY_STATIC_DISPATCH)
#undef TAPER_GRADIENT_DISPATCH

}  // namespace taper
#endif
