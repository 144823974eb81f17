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
HWY_INLINE void scale_rows(Range rows, int64_t in, const float* weight, const float* scale, T* to) {
  if (!scale) {
    convert_all(weight + rows.begin * in, (rows.end - rows.begin) * in, to + rows.begin * in);
    return;
  }
  const Tag d;
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
template <int kVectors, class Part>
HWY_INLINE void scale_backward_columns(const ScaledWeightGradient& args, int64_t i, Part part) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto c = hn::Set(d, args.scale);
  hn::Vec<Tag> scale[kVectors], sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    scale[v] = hn::Mul(c, load(d, args.gamma_t + i + v * lanes, part));
    sum[v] = hn::Zero(d);
  }
  for (int64_t row = 0; row < args.out; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = row * args.in + i + v * lanes;
      auto g = hn::Zero(d);
      for (float* gradient : args.gradients) {
        g = hn::Add(g, load(d, gradient + at, part));
        store(d, hn::Zero(d), gradient + at, part);
      }
      sum[v] = hn::MulAdd(g, load(d, args.weight + at, part), sum[v]);
      store(d, hn::MulAdd(g, scale[v], load(d, args.dweight + at, part)), args.dweight + at, part);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    float* to = args.dgamma_t + i + v * lanes;
    store(d, hn::MulAdd(c, sum[v], load(d, to, part)), to, part);
  }
}

void ScaleBackward(const ScaledWeightGradient& args, Range columns) {
  const Tag d;
  const auto block = 4 * static_cast<int64_t>(hn::Lanes(d));
  int64_t i = columns.begin;
  for (; i + block <= columns.end; i += block) scale_backward_columns<4>(args, i, AllLanes{});
  for_each_vector(d, columns.end - i, [&](int64_t j, auto part) HWY_ATTR {
    scale_backward_columns<1>(args, i + j, part);
  });
}

void ConvertF32(const float* from, int64_t count, float* to) { convert_all(from, count, to); }
void ConvertBF16(const float* from, int64_t count, bf16* to) { convert_all(from, count, to); }
void AddF32(const float* from, int64_t count, float* to) { add_all(from, count, to); }
void AddBF16(const bf16* from, int64_t count, float* to) { add_all(from, count, to); }
void ScaleF32(Range rows, int64_t in, const float* weight, const float* scale, float* to) {
  scale_rows(rows, in, weight, scale, to);
}
void ScaleBF16(Range rows, int64_t in, const float* weight, const float* scale, bf16* to) {
  scale_rows(rows, in, weight, scale, to);
}

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(ScaleBackward);

#define TAPER_WEIGHT_DISPATCH(Name, T)                                                           \
  HWY_EXPORT(Convert##Name);                                                                     \
  HWY_EXPORT(Add##Name);                                                                         \
  HWY_EXPORT(Scale##Name);                                                                       \
  template <>                                                                                    \
  void convert<T>(const float* from, int64_t count, T* to) {                                     \
    HWY_DYNAMIC_DISPATCH(Convert##Name)(from, count, to);                                        \
  }                                                                                              \
  template <>                                                                                    \
  void add_row<T>(const T* from, int64_t count, float* to) {                                     \
    HWY_DYNAMIC_DISPATCH(Add##Name)(from, count, to);                                            \
  }                                                                                              \
  template <>                                                                                    \
  void scale_weight<T>(Range rows, int64_t in, const float* weight, const float* scale, T* to) { \
    HWY_DYNAMIC_DISPATCH(Scale##Name)(rows, in, weight, scale, to);                              \
  }
TAPER_WEIGHT_DISPATCH(F32, float)
TAPER_WEIGHT_DISPATCH(BF16, bf16)
#undef TAPER_WEIGHT_DISPATCH

void scale_weight_backward(const ScaledWeightGradient& args, Range columns) {
  HWY_DYNAMIC_DISPATCH(ScaleBackward)(args, columns);
}

}  // namespace taper
#endif
