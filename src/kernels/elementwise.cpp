#include "kernels/elementwise.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;

void scale_rows_target(const float* h, int64_t rows, int64_t width, const float* multiplier,
                       float* y) {
  const Floats d;
  for (int64_t row = 0; row < rows; ++row, h += width, y += width) {
    for_each_vector(d, width, [&](int64_t i, auto part) HWY_ATTR {
      store(d, hn::Mul(load(d, h + i, part), load(d, multiplier + i, part)), y + i, part);
    });
  }
}

void silu_multiply_target(float* gate, const float* up, int64_t count) {
  const Floats d;
  const auto one = hn::Set(d, 1.0f);
  for_each_vector(d, count, [&](int64_t i, auto part) HWY_ATTR {
    const auto x = load(d, gate + i, part);
    const auto silu = hn::Div(x, hn::Add(one, exp(d, hn::Neg(x))));
    store(d, hn::Mul(silu, load(d, up + i, part)), gate + i, part);
  });
}

float log_sum_exp_target(const float* x, int64_t count) {
  const Floats d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = count / lanes * lanes;
  auto maxima = hn::Set(d, x[0]);
  for (int64_t i = 0; i < whole; i += lanes) maxima = hn::Max(maxima, hn::LoadU(d, x + i));
  float largest = max_lanes(d, maxima);
  for (int64_t i = whole; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  const auto shift = hn::Set(d, largest);
  auto sum = hn::Zero(d);
  auto check = hn::Zero(d);  // stays 0 for finite x, turns NaN otherwise
  for (int64_t i = 0; i < whole; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    sum = hn::Add(sum, exp(d, hn::Sub(value, shift)));
    check = hn::MulAdd(value, hn::Zero(d), check);
  }
  float total = sum_lanes(d, sum);
  float checked = sum_lanes(d, check);
  for (int64_t i = whole; i < count; ++i) {
    total += std::exp(x[i] - largest);
    checked += x[i] * 0.0f;
  }
  return largest + std::log(total) + checked;
}

}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(scale_rows_target);
HWY_EXPORT(silu_multiply_target);
HWY_EXPORT(log_sum_exp_target);

void scale_rows(const float* h, int64_t rows, int64_t width, const float* multiplier, float* y) {
  HWY_DYNAMIC_DISPATCH(scale_rows_target)(h, rows, width, multiplier, y);
}

void silu_multiply(float* gate, const float* up, int64_t count) {
  HWY_DYNAMIC_DISPATCH(silu_multiply_target)(gate, up, count);
}

float log_sum_exp(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(log_sum_exp_target)(x, count);
}

}  // namespace taper
#endif
