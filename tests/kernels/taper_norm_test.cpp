#include "kernels/taper_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/simd_targets.h"
#include "kernels/storage.h"

namespace taper {
namespace {

using test::at;
using test::central_differences;
using test::expect_near;
using test::kRounding;
using test::random_values;
using test::stored;
using test::Values;
using test::widened;

constexpr int64_t kWidths[] = {1, 3, 8, 64, 229};

struct Problem {
  int64_t rows, width;
  double gate, scale = 0.7, eps = 1e-5;
  Values h, dy, gamma, gamma_t;

  Problem(int64_t rows_, int64_t width_, double gate_, uint64_t seed = 1)
      : rows(rows_), width(width_), gate(gate_) {
    h = random_values(rows * width, seed, 2.0, 0.3);
    dy = random_values(rows * width, seed + 1);
    gamma = random_values(width, seed + 2, 0.3, 1.0);
    gamma_t = random_values(width, seed + 3, 0.3, 1.0);
  }

  double statistic(const double* row) const {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += row[i] * row[i];
    return std::sqrt(sum / static_cast<double>(width) + eps);
  }

  // The specification.
  Values reference(const Values& x, const Values& g, const Values& g_t) const {
    Values y(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      const double r = statistic(x.data() + row * width);
      for (int64_t i = 0; i < width; ++i) {
        const double value = x[at(row * width + i)];
        y[at(row * width + i)] =
            gate * value / r * g[at(i)] + (1 - gate) * scale * value * g_t[at(i)];
      }
    }
    return y;
  }
  Values reference() const { return reference(h, gamma, gamma_t); }
};

template <typename T>
struct Pass {
  using R = Real<T>;
  std::vector<R> gamma, gamma_t, rstd, dgamma, dgamma_t;
  std::vector<T> h, y, dy, dh, y_again, dh_around;
  TaperNormSums sums;

  explicit Pass(const Problem& p, bool with_sums = false, const uint8_t* mask = nullptr)
      : gamma(stored<R>(p.gamma)),
        gamma_t(stored<R>(p.gamma_t)),
        rstd(at(p.rows), R{-1}),
        dgamma(at(p.width)),
        dgamma_t(at(p.width)),
        h(stored<T>(p.h)),
        y(h.size()),
        dy(stored<T>(p.dy)),
        dh(h.size()),
        y_again(h.size()),
        dh_around(dy) {
    const TaperNormArgs<R> args{
        gamma.data(),           gamma_t.data(),        static_cast<R>(p.scale),
        static_cast<R>(p.gate), static_cast<R>(p.eps), p.width};
    taper_rms_norm_forward<T>(args, {0, p.rows}, h.data(), y.data(), rstd.data(),
                              with_sums ? &sums : nullptr, mask);
    taper_rms_norm_backward<T>(args, {0, p.rows}, h.data(), dy.data(), rstd.data(), nullptr,
                               dh.data(), dgamma.data(), dgamma_t.data());
    // In place onto another gradient (here dy once more), with the output computed again.
    std::vector<R> unused(at(2 * p.width));
    taper_rms_norm_backward<T>(args, {0, p.rows}, h.data(), dy.data(), rstd.data(),
                               dh_around.data(), dh_around.data(), unused.data(),
                               unused.data() + p.width, y_again.data());
  }
};

template <typename T>
void expect_formula(const Problem& p) {
  expect_near(widened(Pass<T>(p).y), p.reference(), kRounding<T>);
}

TEST(TaperNorm, AnyWidthAndGate_MatchesTheFormula) {
  for (const int64_t width : kWidths) {
    for (const double gate : {0.0, 0.25, 1.0}) {
      const Problem p(6, width, gate);
      SCOPED_TRACE(testing::Message() << "width " << width << " gate " << gate);
      test::for_each_target([&] {
        expect_formula<double>(p);
        expect_formula<float>(p);
      });
    }
  }
}

TEST(TaperNorm, Gradients_MatchCentralDifferences) {
  for (const int64_t width : kWidths) {
    for (const double gate : {0.0, 0.4, 1.0}) {
      const Problem p(6, width, gate);
      SCOPED_TRACE(testing::Message() << "width " << width << " gate " << gate);
      const auto of_h = [&](const Values& x) { return p.reference(x, p.gamma, p.gamma_t); };
      const auto of_gamma = [&](const Values& x) { return p.reference(p.h, x, p.gamma_t); };
      const auto of_gamma_t = [&](const Values& x) { return p.reference(p.h, p.gamma, x); };
      const Values dh = central_differences(p.h, p.dy, of_h);
      const Values dgamma = central_differences(p.gamma, p.dy, of_gamma);
      const Values dgamma_t = central_differences(p.gamma_t, p.dy, of_gamma_t);
      test::for_each_target([&] {
        const Pass<double> exact(p);
        expect_near(exact.dh, dh, 1e-7);
        expect_near(exact.dgamma, dgamma, 1e-7);
        expect_near(exact.dgamma_t, dgamma_t, 1e-7);
        Values dh_around = dh;
        for (size_t i = 0; i < dh.size(); ++i) dh_around[i] += p.dy[i];
        expect_near(exact.dh_around, dh_around, 1e-7);
        const Pass<float> single(p);
        expect_near(widened(single.dh), dh, 1e-5);
        expect_near(widened(single.dh_around), dh_around, 1e-5);
        EXPECT_EQ(single.y_again, single.y);
        expect_near(widened(single.dgamma), dgamma, 1e-5);
        expect_near(widened(single.dgamma_t), dgamma_t, 1e-5);
      });
    }
  }
}

TEST(TaperNorm, GateOne_EqualsThePlainNormBitwise) {
  Problem p(5, 229, 1.0);
  Problem other = p;
  other.scale = std::numeric_limits<double>::quiet_NaN();
  for (double& x : other.gamma_t) x = std::numeric_limits<double>::quiet_NaN();
  test::for_each_target([&] {
    const Pass<float> a(p), b(other);
    EXPECT_EQ(a.y, b.y);
    EXPECT_EQ(a.dh, b.dh);
    EXPECT_EQ(a.dgamma, b.dgamma);
    EXPECT_EQ(b.dgamma_t, std::vector<float>(229, 0.0f));
  });
}

TEST(TaperNorm, GateZero_IgnoresAHugeOutlierInAnotherChannelAndLeavesTheStatistics) {
  Problem p(5, 64, 0.0);
  Problem other = p;
  other.h[7] = 1e30;
  test::for_each_target([&] {
    const Pass<float> a(p), b(other);
    for (size_t i = 0; i < a.y.size(); ++i) {
      if (i == 7) continue;
      ASSERT_EQ(a.y[i], b.y[i]) << i;
    }
    EXPECT_EQ(b.rstd, std::vector<float>(5, -1.0f));
    EXPECT_EQ(b.dgamma, std::vector<float>(64, 0.0f));
  });
}

TEST(TaperNorm, ManyRows_ReduceGammasGradientPrecisely) {
  const Problem p(4096, 3, 1.0);
  Values expected(3);
  for (int64_t row = 0; row < p.rows; ++row) {
    const double r = p.statistic(p.h.data() + row * 3);
    for (int64_t i = 0; i < 3; ++i)
      expected[at(i)] += p.dy[at(row * 3 + i)] * p.h[at(row * 3 + i)] / r;
  }
  test::for_each_target([&] { expect_near(widened(Pass<float>(p).dgamma), expected, 2e-5); });
}

TEST(TaperNorm, Sums_MatchTheFormulaAndLeaveMaskedRowsOut) {
  const Problem p(5, 229, 1.0);
  const std::vector<uint8_t> mask{1, 0, 1, 1, 0};
  double numerator = 0, denominator = 0, scale = 0;
  for (int64_t row : {0, 2, 3}) {
    double square = 0;
    for (int64_t i = 0; i < p.width; ++i)
      square += std::pow(p.h[at(row * p.width + i)] * p.gamma[at(i)], 2);
    const double r = p.statistic(p.h.data() + row * p.width);
    numerator += square / r;
    denominator += square;
    scale += r;
  }
  test::for_each_target([&] {
    const TaperNormSums sums = Pass<float>(p, true, mask.data()).sums;
    EXPECT_EQ(sums.rows, 3);
    EXPECT_NEAR(sums.numerator, numerator, 1e-6 * numerator);
    EXPECT_NEAR(sums.denominator, denominator, 1e-6 * denominator);
    EXPECT_NEAR(sums.scale, scale, 1e-6 * scale);
  });
}

TEST(TaperNorm, FloatToBf16_RoundsTheFloatResultOnce) {
  for (const double gate : {0.0, 0.4, 1.0}) {
    const Problem p(5, 229, gate);
    test::for_each_target([&] {
      const Pass<float> whole(p);
      const TaperNormArgs<float> args{
          whole.gamma.data(), whole.gamma_t.data(), 0.7f, static_cast<float>(gate), 1e-5f, p.width};
      std::vector<bf16> y(whole.h.size()), y_again(whole.h.size());
      std::vector<float> rstd(whole.rstd), dh(whole.h.size()), dgamma(at(p.width)),
          dgamma_t(at(p.width));
      taper_rms_norm_forward<float>(args, {0, p.rows}, whole.h.data(), y.data(), rstd.data());
      taper_rms_norm_backward<float>(args, {0, p.rows}, whole.h.data(), whole.dy.data(),
                                     rstd.data(), nullptr, dh.data(), dgamma.data(),
                                     dgamma_t.data(), y_again.data());
      EXPECT_EQ(dh, whole.dh);
      EXPECT_EQ(dgamma, whole.dgamma);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_EQ(y[i].bits, to_bf16(whole.y[i]).bits) << i;
        ASSERT_EQ(y_again[i].bits, y[i].bits) << i;
      }
    });
  }
}

TEST(TaperNorm, LargeValues_DoNotOverflowTheStatistic) {
  Problem p(2, 64, 1.0);
  for (double& x : p.h) x *= 65536;
  test::for_each_target([&] { expect_formula<float>(p); });
}

TEST(Anchor, Gradient_MatchesCentralDifferencesAndSkipsMaskedRows) {
  for (const int64_t width : kWidths) {
    const Problem p(4, width, 1.0);
    const std::vector<uint8_t> mask{1, 1, 0, 1};
    const double target = 1.3, weight = 0.2;
    const auto loss = [&](const Values& x) {
      double sum = 0;
      for (int64_t row : {0, 1, 3})
        sum += std::pow(p.statistic(x.data() + row * width) - target, 2);
      return Values{weight * sum};
    };
    const Values expected = central_differences(p.h, {1.0}, loss);
    test::for_each_target([&] {
      std::vector<double> r(4), dh(p.h.size());  // added to
      residual_scale_rows<double>({0, 4}, width, p.eps, p.h.data(), r.data());
      anchor_backward_rows<double>({0, 4}, width, target, weight, p.h.data(), r.data(), mask.data(),
                                   dh.data());
      expect_near(dh, expected, 1e-8);
      const auto h = stored<float>(p.h);
      std::vector<float> r32(4), dh32(p.h.size());
      residual_scale_rows<float>({0, 4}, width, 1e-5f, h.data(), r32.data());
      anchor_backward_rows<float>({0, 4}, width, 1.3f, 0.2f, h.data(), r32.data(), mask.data(),
                                  dh32.data());
      expect_near(widened(r32), r, 1e-6);
      expect_near(widened(dh32), expected, 1e-5);
      anchor_backward_rows<double>({0, 4}, width, target, weight, p.h.data(), r.data(), mask.data(),
                                   dh.data());
      for (double& value : dh) value /= 2;
      expect_near(dh, expected, 1e-8);
    });
  }
}

}  // namespace
}  // namespace taper
