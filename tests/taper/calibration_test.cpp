#include "taper/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "model/error_matchers.h"

namespace taper {
namespace {

TEST(Ema, BiasCorrected_EqualsTheExactWeightedMean) {
  Random random(1);
  for (const double m : {1e-6, 0.01, 0.1, 0.5, 1.0}) {
    EmaState state;
    std::vector<double> samples;
    for (int n = 1; n <= 60; ++n) {
      samples.push_back(1 + random.normal());
      ema_update(state, m, samples.back());
      double sum = 0;
      double weights = 0;
      for (size_t i = 0; i < samples.size(); ++i) {
        const double weight = m * std::pow(1 - m, static_cast<double>(samples.size() - 1 - i));
        sum += weight * samples[i];
        weights += weight;
      }
      EXPECT_EQ(state.updates, n);
      EXPECT_NEAR(ema_mean(state, m), sum / weights, 1e-9 * (1 + std::abs(sum / weights)));
    }
  }
}

TEST(Ema, ConstantSamples_GiveTheConstantFromTheFirstOn) {
  EmaState state;
  for (int n = 0; n < 5; ++n) {
    ema_update(state, 0.01, 3.5);
    EXPECT_NEAR(ema_mean(state, 0.01), 3.5, 1e-12);
  }
}

TEST(Ema, WithoutSamples_IsAnErrorThatAsksForCalibration) {
  EXPECT_ERROR(ema_mean({}, 0.1), NumericsError, "calibration");
  EXPECT_ERROR(calibrated_scale("model.norm", {}, {}, 0.1), NumericsError, "model.norm",
               "calibration");
}

TEST(CalibratedScale, IsTheRatioOfTheMeansAndMustBePositive) {
  const EmaState numerator{0.3, 4};
  const EmaState denominator{0.6, 4};
  EXPECT_NEAR(calibrated_scale("n", numerator, denominator, 0.1), 0.5, 1e-11);
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_ERROR(calibrated_scale("model.norm", {bad, 4}, denominator, 0.1), NumericsError,
                 "model.norm");
  }
}

// A batch of tokens whose sizes differ by up to a factor of ten, and a random gamma.
struct Batch {
  int64_t width;
  std::vector<std::vector<float>> tokens;
  std::vector<float> gamma;
};

Batch random_batch(uint64_t seed, int64_t width) {
  Random random(seed);
  Batch batch{width, {}, {}};
  for (int64_t i = 0; i < width; ++i)
    batch.gamma.push_back(static_cast<float>(0.5 + random.uniform()));
  for (int token = 0; token < 40; ++token) {
    const double size = std::pow(10.0, random.uniform());
    std::vector<float> h;
    for (int64_t i = 0; i < width; ++i) h.push_back(static_cast<float>(size * random.normal()));
    batch.tokens.push_back(std::move(h));
  }
  return batch;
}

constexpr double kEps = 1e-3;

// sum over tokens of ||y - y~||^2 and of ||y||^2, from the definition.
std::pair<double, double> squared_errors(const Batch& batch, double c) {
  double error = 0;
  double size = 0;
  for (const std::vector<float>& h : batch.tokens) {
    double squares = 0;
    for (const float value : h) squares += static_cast<double>(value) * value;
    const double r = std::sqrt(squares / static_cast<double>(batch.width) + kEps);
    for (size_t i = 0; i < h.size(); ++i) {
      const double y = h[i] / r * batch.gamma[i];
      const double replaced = c * h[i] * batch.gamma[i];
      error += (y - replaced) * (y - replaced);
      size += y * y;
    }
  }
  return {error, size};
}

NormStatistics gather(const Batch& batch, size_t begin, size_t end) {
  NormStatistics statistics;
  for (size_t token = begin; token < end; ++token)
    statistics.add(batch.tokens[token].data(), batch.gamma.data(), batch.width, kEps);
  return statistics;
}

class Statistics : public testing::TestWithParam<int64_t> {};

TEST_P(Statistics, Scale_IsTheLeastSquaresMinimum) {
  const Batch batch = random_batch(static_cast<uint64_t>(GetParam()), GetParam());
  const NormStatistics statistics = gather(batch, 0, batch.tokens.size());
  const double c = statistics.scale("n");
  const double best = squared_errors(batch, c).first;
  for (const double factor : {0.9, 0.999, 1.001, 1.1})
    EXPECT_LT(best, squared_errors(batch, c * factor).first) << factor;
}

TEST_P(Statistics, RelativeError_EqualsTheDefinition) {
  const Batch batch = random_batch(static_cast<uint64_t>(GetParam()), GetParam());
  const NormStatistics statistics = gather(batch, 0, batch.tokens.size());
  for (const double c : {0.0, statistics.scale("n"), 2.5}) {
    const auto [error, size] = squared_errors(batch, c);
    EXPECT_NEAR(statistics.relative_error(c), std::sqrt(error / size), 1e-10);
  }
}

TEST_P(Statistics, Parts_AddUpToTheWhole) {
  const Batch batch = random_batch(static_cast<uint64_t>(GetParam()), GetParam());
  const NormStatistics whole = gather(batch, 0, 40);
  NormStatistics sum;
  sum.merge(gather(batch, 0, 13));
  sum.merge({});
  sum.merge(gather(batch, 13, 40));
  EXPECT_EQ(sum.tokens, whole.tokens);
  EXPECT_NEAR(sum.scale("n"), whole.scale("n"), 1e-13);
  EXPECT_NEAR(sum.mean_r(), whole.mean_r(), 1e-12);
  EXPECT_EQ(sum.min_r, whole.min_r);
  EXPECT_EQ(sum.max_r, whole.max_r);
}

INSTANTIATE_TEST_SUITE_P(Widths, Statistics, testing::Values(1, 3, 64, 229));

TEST(Statistics, TokensOfOneSize_AreReplacedWithoutError) {
  NormStatistics statistics;
  const float gamma[2] = {0.7f, 1.3f};
  for (const float sign : {1.0f, -1.0f}) {
    const float h[2] = {3 * sign, 4};
    EXPECT_NEAR(statistics.add(h, gamma, 2, 0.5), std::sqrt(13.0), 1e-12);
  }
  EXPECT_NEAR(statistics.scale("n"), 1 / std::sqrt(13.0), 1e-12);
  EXPECT_LT(statistics.relative_error(statistics.scale("n")), 1e-7);
}

TEST(Statistics, WithoutTokens_IsAnErrorThatAsksForCalibration) {
  EXPECT_ERROR(NormStatistics{}.scale("model.norm"), NumericsError, "model.norm", "calibration");
  EXPECT_ERROR(NormStatistics{}.mean_r(), NumericsError, "calibration");
}

TEST(ScaleHistogram, Quantiles_AreThoseOfTheSortedValues) {
  ScaleHistogram histogram;
  EXPECT_ERROR(histogram.quantile(0.5), NumericsError, "calibration");
  Random random(3);
  std::vector<double> values;
  for (int i = 0; i < 1001; ++i) {
    values.push_back(std::exp(2 * random.normal()));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.count(), 1001);
  EXPECT_NEAR(histogram.quantile(0.5), values[500], 0.006 * values[500]);
  EXPECT_NEAR(histogram.quantile(0.01), values[10], 0.006 * values[10]);
  EXPECT_NEAR(histogram.quantile(1), values.back(), 0.006 * values.back());
}

TEST(ScaleHistogram, ExtremeValues_StayInTheBorderBins) {
  ScaleHistogram histogram;
  histogram.add(1e-30);
  histogram.add(HUGE_VAL);
  histogram.add(std::nan(""));
  EXPECT_NEAR(histogram.quantile(0), 1e-9, 1e-11);
  EXPECT_NEAR(histogram.quantile(1), 1e9, 1e7);
}

}  // namespace
}  // namespace taper
