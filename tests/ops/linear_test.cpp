// Products over teams of any size against the plain ones in double.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"

namespace taper {
namespace {

std::vector<double> draws(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& x : values) x = to_float(to_bf16(static_cast<float>(random.normal())));
  return values;
}

template <typename T>
std::vector<T> as(const std::vector<double>& from) {
  std::vector<T> to;
  for (const double x : from)
    if constexpr (std::is_same_v<T, bf16>)
      to.push_back(to_bf16(static_cast<float>(x)));
    else
      to.push_back(static_cast<T>(x));
  return to;
}

double value(double x) { return x; }
double value(float x) { return x; }
double value(bf16 x) { return to_float(x); }

template <typename Y>
void expect_near(const std::vector<Y>& result, const std::vector<double>& expected,
                 double tolerance, const LinearShape& s) {
  ASSERT_EQ(result.size(), expected.size());
  for (size_t i = 0; i < result.size(); ++i)
    ASSERT_NEAR(value(result[i]), expected[i], tolerance * (1 + std::abs(expected[i])))
        << "[" << s.rows << ", " << s.in << ", " << s.out << "] element " << i;
}

const std::vector<LinearShape> kShapes = {{1, 1, 1},    {3, 229, 5},  {40, 7, 541},
                                          {33, 64, 96}, {128, 24, 1}, {100, 171, 64}};

// The formulas, in double.
struct Expected {
  std::vector<double> y, dx, dweight;

  Expected(const LinearShape& s, const std::vector<double>& x, const std::vector<double>& w,
           const std::vector<double>& dy, const std::vector<double>& beside_y,
           const std::vector<double>& beside_dx, const std::vector<double>& beside_dweight)
      : y(beside_y), dx(beside_dx), dweight(beside_dweight) {
    for (int64_t n = 0; n < s.rows; ++n)
      for (int64_t o = 0; o < s.out; ++o)
        for (int64_t i = 0; i < s.in; ++i) {
          const auto no = static_cast<size_t>(n * s.out + o),
                     ni = static_cast<size_t>(n * s.in + i), oi = static_cast<size_t>(o * s.in + i);
          y[no] += x[ni] * w[oi];
          dx[ni] += dy[no] * w[oi];
          dweight[oi] += dy[no] * x[ni];
        }
  }
};

template <typename T, typename Y>
void expect_formulas(double tolerance) {
  for (const LinearShape& s : kShapes) {
    const auto x = draws(s.rows * s.in, 1), w = draws(s.out * s.in, 2),
               dy = draws(s.rows * s.out, 3);
    const auto residual = draws(s.rows * s.out, 4), before = draws(s.rows * s.in, 5),
               dweight_before = draws(s.out * s.in, 6);
    const Expected added(s, x, w, dy, residual, before, dweight_before);
    const std::vector<double> zero_y(residual.size()), zero_dx(before.size());
    const Expected alone(s, x, w, dy, zero_y, zero_dx, dweight_before);
    const auto tx = as<T>(x), tw = as<T>(w), tdy = as<T>(dy);
    for (const int threads : {1, 2, 3}) {
      ThreadPool team(threads);
      LinearOp linear(team);
      std::vector<Y> y(residual.size()), dx = as<Y>(before);
      const auto beside = as<Y>(residual);
      linear.forward<T, Y>(s, tx.data(), tw.data(), y.data());
      expect_near(y, alone.y, tolerance, s);
      linear.forward<T, Y>(s, tx.data(), tw.data(), y.data(), beside.data());
      expect_near(y, added.y, tolerance, s);
      linear.input_gradient<T, Y>(s, tdy.data(), tw.data(), dx.data(), /*accumulate=*/true);
      expect_near(dx, added.dx, tolerance, s);
      linear.input_gradient<T, Y>(s, tdy.data(), tw.data(), dx.data());
      expect_near(dx, alone.dx, tolerance, s);
      auto dweight = as<Real<T>>(dweight_before);
      linear.weight_gradient<T>(s, tdy.data(), tx.data(), dweight.data());
      expect_near(dweight, added.dweight, std::min(tolerance, 1e-4), s);
    }
  }
}

TEST(LinearOp, Double_IsTheFormula) { expect_formulas<double, double>(1e-12); }
TEST(LinearOp, Float_MatchesTheFormulaOnAnyTeam) { expect_formulas<float, float>(2e-5); }
TEST(LinearOp, BFloat16IntoFloat_MatchesTheFormula) { expect_formulas<bf16, float>(2e-5); }
TEST(LinearOp, BFloat16_MatchesTheFormulaToOneRounding) { expect_formulas<bf16, bf16>(8e-3); }

TEST(LinearOp, NoRows_IsNoWork) {
  ThreadPool team(2);
  LinearOp linear(team);
  float untouched = 5;
  linear.forward<float, float>({0, 3, 4}, nullptr, &untouched, &untouched);
  EXPECT_EQ(untouched, 5);
}

TEST(LinearOp, RepeatedOnOneTeam_GivesTheSameBits) {
  const LinearShape s{301, 171, 64};
  const auto x = as<float>(draws(s.rows * s.in, 1)), w = as<float>(draws(s.out * s.in, 2));
  ThreadPool team(3);
  const auto run = [&] {
    LinearOp linear(team);
    std::vector<float> y(static_cast<size_t>(s.rows * s.out));
    linear.forward<float, float>(s, x.data(), w.data(), y.data());
    return y;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace taper
