#include "kernels/elementwise.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE int64_t num_lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

void rms_norm_target(const float* HWY_RESTRICT h, int64_t rows, int64_t width,
                     const float* HWY_RESTRICT gamma, float eps, float* HWY_RESTRICT y) {
  const D d;
  const int64_t lanes = num_lanes();
  for (int64_t row = 0; row < rows; ++row, h += width, y += width) {
    V squares0 = hn::Zero(d), squares1 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * lanes <= width; i += 2 * lanes) {
      const V a = hn::LoadU(d, h + i), b = hn::LoadU(d, h + i + lanes);
      squares0 = hn::MulAdd(a, a, squares0);
      squares1 = hn::MulAdd(b, b, squares1);
    }
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(squares0, squares1)));
    for (; i < width; ++i) sum += h[i] * h[i];
    const float factor = 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
    const V factors = hn::Set(d, factor);
    for (i = 0; i + lanes <= width; i += lanes) {
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, h + i), factors), hn::LoadU(d, gamma + i)), d, y + i);
    }
    for (; i < width; ++i) y[i] = h[i] * factor * gamma[i];
  }
}

void scale_rows_target(const float* HWY_RESTRICT h, int64_t rows, int64_t width,
                       const float* HWY_RESTRICT multiplier, float* HWY_RESTRICT y) {
  const D d;
  const int64_t lanes = num_lanes();
  for (int64_t row = 0; row < rows; ++row, h += width, y += width) {
    int64_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, h + i), hn::LoadU(d, multiplier + i)), d, y + i);
    }
    for (; i < width; ++i) y[i] = h[i] * multiplier[i];
  }
}

// The same operations for whole vectors and, on a padded copy, for the rest: a value's result does
// not depend on where it lies.
HWY_INLINE V silu_multiply_vector(V gate, V up) {
  const D d;
  // exp is defined up to 104; at 88 silu(-x) has long reached zero.
  const V e = hn::Exp(d, hn::Min(hn::Neg(gate), hn::Set(d, 88.0f)));
  return hn::Mul(hn::Div(gate, hn::Add(hn::Set(d, 1.0f), e)), up);
}

void silu_multiply_target(float* HWY_RESTRICT gate, const float* HWY_RESTRICT up, int64_t count) {
  const D d;
  const int64_t lanes = num_lanes();
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(silu_multiply_vector(hn::LoadU(d, gate + i), hn::LoadU(d, up + i)), d, gate + i);
  }
  if (i == count) return;
  HWY_ALIGN float gates[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float ups[HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t j = 0; i + j < count; ++j) {
    gates[j] = gate[i + j];
    ups[j] = up[i + j];
  }
  hn::Store(silu_multiply_vector(hn::Load(d, gates), hn::Load(d, ups)), d, gates);
  for (int64_t j = 0; i + j < count; ++j) gate[i + j] = gates[j];
}

float log_sum_exp_target(const float* HWY_RESTRICT x, int64_t count) {
  const D d;
  const int64_t lanes = num_lanes();
  const int64_t whole = count / lanes * lanes;
  float largest = x[0];
  V maxima = hn::Set(d, x[0]);
  for (int64_t i = 0; i < whole; i += lanes) maxima = hn::Max(maxima, hn::LoadU(d, x + i));
  largest = hn::GetLane(hn::MaxOfLanes(d, maxima));
  for (int64_t i = whole; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  const V shift = hn::Set(d, largest);
  V sum = hn::Zero(d);
  V check = hn::Zero(d);  // stays 0 for finite x, turns NaN otherwise
  for (int64_t i = 0; i < whole; i += lanes) {
    const V value = hn::LoadU(d, x + i);
    sum = hn::Add(sum, hn::Exp(d, hn::Sub(value, shift)));
    check = hn::MulAdd(value, hn::Zero(d), check);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  float checked = hn::GetLane(hn::SumOfLanes(d, check));
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

HWY_EXPORT(rms_norm_target);
HWY_EXPORT(scale_rows_target);
HWY_EXPORT(silu_multiply_target);
HWY_EXPORT(log_sum_exp_target);

void rms_norm(const float* h, int64_t rows, int64_t width, const float* gamma, float eps,
              float* y) {
  HWY_DYNAMIC_DISPATCH(rms_norm_target)(h, rows, width, gamma, eps, y);
}

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
