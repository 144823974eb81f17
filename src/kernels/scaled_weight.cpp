#include "kernels/scaled_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scaled_weight.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

using Tag = hn::ScalableTag<float>;

template <typename T>
HWY_INLINE void convert_all(const float* from, int64_t count, T* to) {
  const Tag d;
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    store(d, load(d, from + i, part), to + i, part);
  });
}

template <typename T>
HWY_INLINE void add_all(const T* from, int64_t count, float* to) {
  const Tag d;
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    store(d, hn::Add(load(d, to + i, part), load(d, from + i, part)), to + i, part);
  });
}

template <typename T>
HWY_INLINE void scale_rows(RowRange rows, int64_t in, const float* weight, const float* scale,
                           T* to) {
  if (!scale) {
    convert_all(weight + rows.begin * in, (rows.end - rows.begin) * in, to + rows.begin * in);
    return;
  }
  const Tag d;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for_each_vector(d, in, [&](int64_t i, auto part) HWY_ATTR {
      const auto w = load(d, weight + row * in + i, part);
      store(d, hn::Mul(w, load(d, scale + i, part)), to + row * in + i, part);
    });
  }
}

void ScaleBackward(const ScaledWeightGradient& args, RowRange columns) {
  const Tag d;
  const auto c = hn::Set(d, args.scale);
  for_each_vector(d, columns.end - columns.begin, [&](int64_t j, auto part) HWY_ATTR {
    const int64_t i = columns.begin + j;
    const auto scale = hn::Mul(c, load(d, args.gamma_t + i, part));
    auto sum = hn::Zero(d);
    for (int64_t row = 0; row < args.out; ++row) {
      const int64_t at = row * args.in + i;
      const auto g = load(d, args.gradient + at, part);
      sum = hn::MulAdd(g, load(d, args.weight + at, part), sum);
      store(d, hn::MulAdd(g, scale, load(d, args.dweight + at, part)), args.dweight + at, part);
    }
    store(d, hn::MulAdd(c, sum, load(d, args.dgamma_t + i, part)), args.dgamma_t + i, part);
  });
}

void ConvertF32(const float* from, int64_t count, float* to) { convert_all(from, count, to); }
void ConvertBF16(const float* from, int64_t count, bf16* to) { convert_all(from, count, to); }
void AddF32(const float* from, int64_t count, float* to) { add_all(from, count, to); }
void AddBF16(const bf16* from, int64_t count, float* to) { add_all(from, count, to); }
void ScaleF32(RowRange rows, int64_t in, const float* weight, const float* scale, float* to) {
  scale_rows(rows, in, weight, scale, to);
}
void ScaleBF16(RowRange rows, int64_t in, const float* weight, const float* scale, bf16* to) {
  scale_rows(rows, in, weight, scale, to);
}

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(ScaleBackward);

#define TAPER_WEIGHT_DISPATCH(Name, T)                                                     \
  HWY_EXPORT(Convert##Name);                                                               \
  HWY_EXPORT(Add##Name);                                                                   \
  HWY_EXPORT(Scale##Name);                                                                 \
  template <>                                                                              \
  void convert<T>(const float* from, int64_t count, T* to) {                               \
    HWY_DYNAMIC_DISPATCH(Convert##Name)(from, count, to);                                  \
  }                                                                                        \
  template <>                                                                              \
  void add_row<T>(const T* from, int64_t count, float* to) {                               \
    HWY_DYNAMIC_DISPATCH(Add##Name)(from, count, to);                                      \
  }                                                                                        \
  template <>                                                                              \
  void scale_weight<T>(RowRange rows, int64_t in, const float* weight, const float* scale, \
                       T* to) {                                                            \
    HWY_DYNAMIC_DISPATCH(Scale##Name)(rows, in, weight, scale, to);                        \
  }
TAPER_WEIGHT_DISPATCH(F32, float)
TAPER_WEIGHT_DISPATCH(BF16, bf16)
#undef TAPER_WEIGHT_DISPATCH

void scale_weight_backward(const ScaledWeightGradient& args, RowRange columns) {
  HWY_DYNAMIC_DISPATCH(ScaleBackward)(args, columns);
}

}  // namespace taper
#endif
