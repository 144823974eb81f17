#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

template <typename T>
HWY_INLINE void forward(Range rows, int64_t width, const T* gate_up, T* y) {
  const hn::ScalableTag<Real<T>> d;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* gate = gate_up + row * 2 * width;
    const T* up = gate + width;
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      const auto g = load(d, gate + i, part);
      const auto silu = hn::Mul(g, sigmoid(d, g));
      store(d, hn::Mul(silu, load(d, up + i, part)), y + row * width + i, part);
    });
  }
}

template <bool kOutput, typename T>
HWY_INLINE void backward(Range rows, int64_t width, const T* gate_up, const T* dy, T* dgate_up,
                         T* y) {
  const hn::ScalableTag<Real<T>> d;
  const auto one = hn::Set(d, 1);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* gate = gate_up + row * 2 * width;
    const T* up = gate + width;
    T* dgate = dgate_up + row * 2 * width;
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      const auto g = load(d, gate + i, part);
      const auto s = sigmoid(d, g);
      const auto u = load(d, up + i, part);
      const auto ds = hn::Mul(load(d, dy + row * width + i, part), s);
      const auto slope = hn::MulAdd(g, hn::Sub(one, s), one);
      if constexpr (kOutput) store(d, hn::Mul(hn::Mul(g, s), u), y + row * width + i, part);
      store(d, hn::Mul(hn::Mul(ds, slope), u), dgate + i, part);
      store(d, hn::Mul(ds, g), dgate + width + i, part);
    });
  }
}

// Dispatch needs plain functions: one set a storage type.
#define TAPER_SWIGLU_KERNELS(Name, T)                                                         \
  void Forward##Name(Range rows, int64_t width, const T* gate_up, T* y) {                     \
    forward(rows, width, gate_up, y);                                                         \
  }                                                                                           \
  void Backward##Name(Range rows, int64_t width, const T* gate_up, const T* dy, T* d, T* y) { \
    if (y)                                                                                    \
      backward<true>(rows, width, gate_up, dy, d, y);                                         \
    else                                                                                      \
      backward<false>(rows, width, gate_up, dy, d, y);                                        \
  }
TAPER_SWIGLU_KERNELS(F32, float)
TAPER_SWIGLU_KERNELS(BF16, bf16)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_SWIGLU_KERNELS(F64, double)
#endif
#undef TAPER_SWIGLU_KERNELS

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

#define TAPER_SWIGLU_DISPATCH(Name, T, DISPATCH)                                                 \
  template <>                                                                                    \
  void swiglu_forward_rows<T>(Range rows, int64_t width, const T* gate_up, T* y) {               \
    DISPATCH(Forward##Name)(rows, width, gate_up, y);                                            \
  }                                                                                              \
  template <>                                                                                    \
  void swiglu_backward_rows<T>(Range rows, int64_t width, const T* gate_up, const T* dy, T* out, \
                               T* y) {                                                           \
    DISPATCH(Backward##Name)(rows, width, gate_up, dy, out, y);                                  \
  }
HWY_EXPORT(ForwardF32);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(ForwardBF16);
HWY_EXPORT(BackwardBF16);
TAPER_SWIGLU_DISPATCH(F32, float, HWY_DYNAMIC_DISPATCH)
TAPER_SWIGLU_DISPATCH(BF16, bf16, HWY_DYNAMIC_DISPATCH)
TAPER_SWIGLU_DISPATCH(F64, double, HWY_STATIC_DISPATCH)
#undef TAPER_SWIGLU_DISPATCH

}  // namespace taper
#endif
