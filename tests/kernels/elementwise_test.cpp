// SwiGLU, cross-entropy and AdamW.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/simd_targets.h"
#include "kernels/storage.h"
#include "kernels/swiglu.h"

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

Values swiglu_reference(int64_t rows, int64_t width, const Values& x) {
  Values y;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      const double gate = x[at(row * 2 * width + i)], up = x[at(row * 2 * width + width + i)];
      y.push_back(gate / (1 + std::exp(-gate)) * up);
    }
  }
  return y;
}

template <typename T>
void expect_swiglu(int64_t rows, int64_t width, const Values& x, const Values& dy, const Values& y,
                   const Values& dx) {
  const auto in = stored<T>(x), gradient = stored<T>(dy);
  std::vector<T> out(gradient.size()), again(gradient.size()), din(in.size()), din_again(in.size());
  swiglu_forward_rows<T>({0, rows}, width, in.data(), out.data());
  swiglu_backward_rows<T>({0, rows}, width, in.data(), gradient.data(), din.data());
  swiglu_backward_rows<T>({0, rows}, width, in.data(), gradient.data(), din_again.data(),
                          again.data());
  EXPECT_EQ(widened(again), widened(out));
  EXPECT_EQ(widened(din_again), widened(din));
  expect_near(widened(out), y, kRounding<T>);
  expect_near(widened(din), dx, std::max(kRounding<T>, 1e-7));
}

TEST(Swiglu, AnyWidth_MatchesTheFormulaAndItsDifferences) {
  for (const int64_t width : {1, 3, 8, 229}) {
    const Values x = random_values(3 * 2 * width, 5, 3.0), dy = random_values(3 * width, 6);
    const auto f = [&](const Values& in) { return swiglu_reference(3, width, in); };
    const Values y = f(x), dx = central_differences(x, dy, f);
    SCOPED_TRACE(width);
    test::for_each_target([&] {
      expect_swiglu<double>(3, width, x, dy, y, dx);
      expect_swiglu<float>(3, width, x, dy, y, dx);
      expect_swiglu<bf16>(3, width, x, dy, y, dx);
    });
  }
}

TEST(Swiglu, ExtremeGates_GiveTheLimits) {
  const std::vector<float> x{-200, 200, -1e30f, 1e30f, 2, 2, 2, 2};
  test::for_each_target([&] {
    std::vector<float> y(4);
    swiglu_forward_rows<float>({0, 1}, 4, x.data(), y.data());
    EXPECT_NEAR(y[0], 0, 1e-30);
    EXPECT_EQ(y[1], 400);
    EXPECT_NEAR(y[2], 0, 1e-3);
    EXPECT_EQ(y[3], 2e30f);
    std::vector<float> bad(x);
    bad[0] = std::numeric_limits<float>::quiet_NaN();
    swiglu_forward_rows<float>({0, 1}, 4, bad.data(), y.data());
    EXPECT_TRUE(std::isnan(y[0]));
  });
}

struct CrossEntropy {
  std::vector<double> losses, square_norms;
  Values logits;
};

// The gradient lands in result.logits: in place where the types allow it.
template <typename T>
CrossEntropy run_cross_entropy(const Values& z, const std::vector<int64_t>& targets, int64_t vocab,
                               bool gradient, double scale = 1) {
  std::vector<Real<T>> logits = stored<Real<T>>(z);
  std::vector<T> apart(logits.size());
  T* to = apart.data();
  if constexpr (std::is_same_v<T, Real<T>>) to = logits.data();
  CrossEntropy result{Values(targets.size()), Values(targets.size()), {}};
  const CrossEntropyArgs<T> args{vocab,
                                 targets.data(),
                                 logits.data(),
                                 gradient ? to : nullptr,
                                 static_cast<Real<T>>(scale),
                                 result.losses.data(),
                                 result.square_norms.data()};
  cross_entropy_rows<T>(args, {0, std::ssize(targets)});
  result.logits = std::is_same_v<T, Real<T>> ? widened(logits) : widened(apart);
  return result;
}

Values losses_of(const Values& z, const std::vector<int64_t>& targets, int64_t vocab) {
  Values losses;
  for (int64_t row = 0; row < std::ssize(targets); ++row) {
    double sum = 0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(z[at(row * vocab + v)]);
    const int64_t target = targets[at(row)];
    losses.push_back(target < 0 ? 0 : std::log(sum) - z[at(row * vocab + target)]);
  }
  return losses;
}

TEST(CrossEntropy, AnyVocabulary_MatchesTheFormulaAndItsDifferences) {
  for (const int64_t vocab : {1, 3, 8, 61, 541}) {
    const std::vector<int64_t> targets{0, -100, vocab - 1, vocab / 2};
    const Values z = random_values(4 * vocab, 9, 3.0);
    const auto f = [&](const Values& in) { return losses_of(in, targets, vocab); };
    const Values losses = f(z), gradient = central_differences(z, Values(4, 1.0), f);
    Values norms(4);
    for (int64_t i = 0; i < 4 * vocab; ++i)
      if (targets[at(i / vocab)] >= 0) norms[at(i / vocab)] += z[at(i)] * z[at(i)];
    SCOPED_TRACE(vocab);
    test::for_each_target([&] {
      const CrossEntropy exact = run_cross_entropy<double>(z, targets, vocab, true);
      expect_near(exact.losses, losses, 1e-12);
      expect_near(exact.logits, gradient, 1e-8);
      expect_near(exact.square_norms, norms, 1e-12);
      const CrossEntropy single = run_cross_entropy<float>(z, targets, vocab, true);
      expect_near(single.losses, losses, 2e-6);
      expect_near(single.logits, gradient, 1e-6);
      expect_near(single.square_norms, norms, 1e-5);
      const CrossEntropy half = run_cross_entropy<bf16>(z, targets, vocab, true);
      EXPECT_EQ(half.losses, single.losses);  // only the gradient is rounded
      expect_near(half.logits, gradient, 4e-3);
      Values scaled = gradient;
      for (double& g : scaled) g *= 0.25;
      expect_near(run_cross_entropy<double>(z, targets, vocab, true, 0.25).logits, scaled, 1e-8);
      const CrossEntropy kept = run_cross_entropy<float>(z, targets, vocab, false);
      EXPECT_EQ(kept.losses, single.losses);
      EXPECT_EQ(kept.logits, z);
    });
  }
}

TEST(CrossEntropy, HugeAndBadLogits_StayFiniteOrSaySo) {
  Values z = random_values(2 * 37, 3, 1e4);
  test::for_each_target([&] {
    for (double loss : run_cross_entropy<float>(z, {5, 6}, 37, true).losses) {
      EXPECT_TRUE(std::isfinite(loss));
      EXPECT_GE(loss, 0);
    }
  });
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const size_t where : {size_t{0}, size_t{20}, size_t{36}}) {
      Values broken = z;
      broken[where] = bad;
      test::for_each_target([&] {
        const CrossEntropy result = run_cross_entropy<float>(broken, {5, 6}, 37, true);
        EXPECT_TRUE(std::isnan(result.losses[0])) << bad << " at " << where;
        EXPECT_TRUE(std::isfinite(result.losses[1]));
      });
    }
  }
}

// The specification, in double.
struct AdamWReference {
  Values p, m, v;
  void update(const AdamWOptions& a, const Values& g) {
    for (size_t i = 0; i < p.size(); ++i) {
      const double gradient = a.gradient_scale * g[i];
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * gradient;
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * gradient * gradient;
      const double first = m[i] / (1 - std::pow(a.beta1, a.step));
      const double second = v[i] / (1 - std::pow(a.beta2, a.step));
      p[i] -= a.learning_rate * (first / (std::sqrt(second) + a.eps) + a.weight_decay * p[i]);
    }
  }
};

TEST(AdamW, SeveralSteps_MatchTheFormula) {
  for (const int64_t count : {1, 7, 64, 229}) {
    test::for_each_target([&] {
      AdamWReference reference{random_values(count, 1), Values(at(count)), Values(at(count))};
      auto p = stored<float>(reference.p), m = stored<float>(reference.m), v = m;
      for (int64_t step = 1; step <= 5; ++step) {
        const Values g = random_values(count, 10 + static_cast<uint64_t>(step), 0.1);
        const auto gradient = stored<float>(g);
        const AdamWOptions options{
            .learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.5, .step = step};
        reference.update(options, g);
        // Any split of the range gives the same bits as one sweep; two are enough to see a slip.
        for (const Range part : {Range{0, count / 2}, Range{count / 2, count}})
          adamw_range(options, part, p.data(), gradient.data(), m.data(), v.data());
      }
      expect_near(widened(p), reference.p, 1e-6);
      expect_near(widened(m), reference.m, 1e-6);
      expect_near(widened(v), reference.v, 1e-6);
    });
  }
}

TEST(SumOfSquares, LargeAndSmallValues_AddUpInDouble) {
  for (const int64_t count : {0, 1, 5, 64, 1003}) {
    std::vector<float> x(at(count), 1e-3f);
    if (count > 2) x[2] = 3e38f;  // its square overflows a float
    double expected = 0;
    for (float value : x) expected += static_cast<double>(value) * value;
    test::for_each_target(
        [&] { EXPECT_NEAR(sum_of_squares(x.data(), count), expected, 1e-13 * expected); });
  }
}

TEST(FirstNonFinite, NanOrInfinity_IsNamedByIndex) {
  std::vector<float> x(100, 1.0f);
  EXPECT_EQ(first_non_finite(x.data(), 100), -1);
  x[70] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_non_finite(x.data(), 100), 70);
  x[33] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(first_non_finite(x.data(), 100), 33);
}

}  // namespace
}  // namespace taper
