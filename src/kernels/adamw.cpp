#include "kernels/adamw.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

void UpdateRange(const AdamWOptions& args, Range elements, float* parameters,
                 const float* gradients, float* first_moments, float* second_moments) {
  const hn::ScalableTag<float> d;
  const double correction1 = 1 - std::pow(args.beta1, static_cast<double>(args.step));
  const double correction2 = 1 - std::pow(args.beta2, static_cast<double>(args.step));
  const auto b1 = hn::Set(d, static_cast<float>(args.beta1));
  const auto b2 = hn::Set(d, static_cast<float>(args.beta2));
  const auto a1 = hn::Set(d, static_cast<float>(1 - args.beta1));
  const auto a2 = hn::Set(d, static_cast<float>(1 - args.beta2));
  const auto scale = hn::Set(d, static_cast<float>(args.gradient_scale));
  const auto rate = hn::Set(d, static_cast<float>(args.learning_rate / correction1));
  const auto root = hn::Set(d, static_cast<float>(1 / std::sqrt(correction2)));
  const auto eps = hn::Set(d, static_cast<float>(args.eps));
  const auto keep = hn::Set(d, static_cast<float>(1 - args.learning_rate * args.weight_decay));
  float* p = parameters + elements.begin;
  const float* g = gradients + elements.begin;
  float* m = first_moments + elements.begin;
  float* v = second_moments + elements.begin;
  for_each_vector(d, elements.end - elements.begin, [&](int64_t i, auto part) HWY_ATTR {
    const auto gradient = hn::Mul(scale, load(d, g + i, part));
    const auto m1 = hn::MulAdd(a1, gradient, hn::Mul(b1, load(d, m + i, part)));
    const auto square = hn::Mul(gradient, gradient);
    const auto v1 = hn::MulAdd(a2, square, hn::Mul(b2, load(d, v + i, part)));
    const auto denominator = hn::MulAdd(hn::Sqrt(v1), root, eps);
    const auto kept = hn::Mul(keep, load(d, p + i, part));
    store(d, hn::NegMulAdd(rate, hn::Div(m1, denominator), kept), p + i, part);
    store(d, m1, m + i, part);
    store(d, v1, v + i, part);
  });
}

double SumOfSquares(const float* values, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto x0 = hn::PromoteTo(d, hn::LoadU(df, values + i));
    const auto x1 = hn::PromoteTo(d, hn::LoadU(df, values + i + lanes));
    const auto x2 = hn::PromoteTo(d, hn::LoadU(df, values + i + 2 * lanes));
    const auto x3 = hn::PromoteTo(d, hn::LoadU(df, values + i + 3 * lanes));
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  double sum = sum_lanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  for (; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(UpdateRange);
HWY_EXPORT(SumOfSquares);

void adamw_range(const AdamWOptions& options, Range elements, float* parameters,
                 const float* gradients, float* first_moments, float* second_moments) {
  HWY_DYNAMIC_DISPATCH(UpdateRange)
  (options, elements, parameters, gradients, first_moments, second_moments);
}

double sum_of_squares(const float* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(values, count);
}

int64_t first_non_finite(const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i])) return i;
  return -1;
}

}  // namespace taper
#endif
