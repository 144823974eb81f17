// The propositions of method.md, section 2, on the final norm, the head and the anchor in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "ops/head.h"
#include "ops/norm.h"

namespace taper {
namespace {

using Values = std::vector<double>;

constexpr int64_t kRows = 11, kWidth = 24, kVocab = 23;

Values draws(int64_t count, uint64_t seed, double spread, double mean = 0) {
  Random random(seed);
  Values values(static_cast<size_t>(count));
  for (double& x : values) x = mean + spread * random.normal();
  return values;
}

double dot(const Values& a, const Values& b, int64_t row, int64_t width) {
  const auto begin = row * width;
  return std::inner_product(a.begin() + begin, a.begin() + begin + width, b.begin() + begin, 0.0);
}

// The last state h through norm (or gamma alone) and head: logits, and dloss/dh.
struct HeadProblem {
  Values h = draws(kRows * kWidth, 1, 1), gamma = draws(kWidth, 2, 0.1, 1),
         weight = draws(kVocab * kWidth, 3, 0.3);
  std::vector<int64_t> targets;
  ThreadPool pool{1};
  OpContext context{pool};

  HeadProblem() {
    Random random(4);
    for (int64_t n = 0; n < kRows; ++n)
      targets.push_back(static_cast<int64_t>(random.below(kVocab)));
  }

  Values scaled() const {
    Values x = h;
    for (size_t i = 0; i < x.size(); ++i) x[i] *= gamma[i % kWidth];
    return x;
  }

  Values logits(const Values& x) {
    Values z(kRows * kVocab);
    LinearOp(pool).forward<double>({kRows, kWidth, kVocab}, x.data(), weight.data(), z.data());
    return z;
  }

  Values gradient_of(const Values& x) {
    AlignedMemory memory(1 << 20);
    MemoryLayout layout(memory.data());
    HeadArgs<double> args;
    args.shape = {kRows, kWidth, kVocab};
    HeadScratch<double> scratch(args.shape, layout);
    Values dx(x.size()), dweight(weight.size());
    args.x = x.data();
    args.weight = weight.data();
    args.targets = targets.data();
    args.backward = true;
    args.dx = dx.data();
    args.dweight = dweight.data();
    LinearOp linear(pool);
    head_cross_entropy(context, linear, args, scratch);
    return dx;
  }

  // Through a plain norm.
  Values normed_gradient(double eps) {
    const TaperNormArgs<double> args{gamma.data(), nullptr, 0, 1, eps, kWidth};
    Values x(h.size()), rstd(kRows), dh(h.size()), dgamma(kWidth),
        scratch(static_cast<size_t>(norm_scratch(kRows, kWidth)));
    norm_forward<double>(context, args, kRows, h.data(), x.data(), rstd.data(), nullptr, nullptr);
    const Values dx = gradient_of(x);
    norm_backward<double>(context, args, kRows, h.data(), dx.data(), rstd.data(), nullptr,
                          dh.data(), dgamma.data(), nullptr, nullptr, scratch.data());
    return dh;
  }

  // Through gamma alone.
  Values plain_gradient() {
    Values dh = gradient_of(scaled());
    for (size_t i = 0; i < dh.size(); ++i) dh[i] *= gamma[i % kWidth];
    return dh;
  }
};

TEST(Theory, FinalNorm_RemovesTheRadialGradient) {  // Proposition 1
  HeadProblem p;
  const Values with = p.normed_gradient(1e-12), without = p.plain_gradient();
  double largest = 0;
  for (int64_t n = 0; n < kRows; ++n) {
    EXPECT_LT(std::abs(dot(with, p.h, n, kWidth)), 1e-9);
    largest = std::max(largest, std::abs(dot(without, p.h, n, kWidth)));
  }
  EXPECT_GT(largest, 1e-2) << "without the norm the same gradient is anything but tangential";
}

TEST(Theory, WithoutFinalNorm_CorrectTokensChaseLogits) {  // Proposition 2
  HeadProblem p;
  const Values z = p.logits(p.scaled());
  for (int64_t n = 0; n < kRows; ++n) {  // every token is classified correctly
    const auto row = z.begin() + n * kVocab;
    p.targets[static_cast<size_t>(n)] = std::max_element(row, row + kVocab) - row;
  }
  const Values dh = p.plain_gradient();
  for (int64_t n = 0; n < kRows; ++n) {
    Values row(z.begin() + n * kVocab, z.begin() + (n + 1) * kVocab);
    double total = 0, mean = 0;
    for (const double value : row) total += std::exp(value);
    for (const double value : row) mean += std::exp(value) / total * value;
    std::sort(row.rbegin(), row.rend());
    const double p_y = std::exp(row[0]) / total, margin = row[0] - row[1];
    const double radial = dot(dh, p.h, n, kWidth);
    EXPECT_NEAR(radial, mean - row[0], 1e-9);
    EXPECT_LE(radial, -(1 - p_y) * margin + 1e-12);
    EXPECT_LT(radial, 0);
  }
}

TEST(Theory, Anchor_PullsTowardsTheTargetFromBothSides) {  // Proposition 3
  const double eps = 1e-5, lambda = 0.1, target = 1.5;
  const int64_t rows = 9;
  Values h = draws(rows * kWidth, 8, 1), r(rows), dh(h.size());
  for (size_t i = 0; i < h.size(); ++i) h[i] *= 0.3 + 0.3 * static_cast<double>(i / kWidth);
  ThreadPool pool(1);
  const OpContext context{pool};
  residual_scale<double>(context, rows, kWidth, eps, h.data(), r.data());
  anchor_backward<double>(context, rows, kWidth, target, lambda, h.data(), r.data(), nullptr,
                          dh.data());
  for (int64_t n = 0; n < rows; ++n) {
    const double s = r[static_cast<size_t>(n)], squares = dot(h, h, n, kWidth);
    EXPECT_NEAR(s, std::sqrt(squares / kWidth + eps), 1e-12);
    EXPECT_NEAR(dot(dh, h, n, kWidth), 2 * lambda * (s - target) * squares / (kWidth * s), 1e-10);
  }
  EXPECT_GT(*std::max_element(r.begin(), r.end()), target);
  EXPECT_LT(*std::min_element(r.begin(), r.end()), target);
}

// c* of the first norm, whose input can be written down: num / den of the sums, and the minimum of
// the replaced norm's error.
TEST(Theory, CalibratedScale_IsTheBestReplacement) {
  const Values h = draws(kRows * kWidth, 5, 1), gamma = draws(kWidth, 6, 0.2, 1);
  const double eps = 1e-5;
  ThreadPool pool(1);
  const OpContext context{pool};
  const TaperNormArgs<double> args{gamma.data(), nullptr, 0, 1, eps, kWidth};
  Values y(h.size()), rstd(kRows);
  TaperNormSums sums;
  norm_forward<double>(context, args, kRows, h.data(), y.data(), rstd.data(), &sums, nullptr);
  EXPECT_EQ(sums.rows, kRows);
  const auto error = [&](double c) {
    double total = 0;
    for (size_t i = 0; i < h.size(); ++i) total += std::pow(y[i] - c * h[i] * gamma[i % kWidth], 2);
    return total;
  };
  const double c = sums.numerator / sums.denominator;
  EXPECT_GT(error(c * 1.001), error(c));
  EXPECT_GT(error(c * 0.999), error(c));
}

}  // namespace
}  // namespace taper
