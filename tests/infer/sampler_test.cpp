#include "infer/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"

namespace taper {
namespace {

// Logits whose probabilities at temperature 1 are exactly proportional to these numbers.
std::vector<float> logits_of(const std::vector<double>& weights) {
  std::vector<float> logits;
  for (const double weight : weights) logits.push_back(static_cast<float>(std::log(weight)));
  return logits;
}

std::vector<int32_t> survivors(const SamplerOptions& options, const std::vector<float>& logits) {
  std::vector<int32_t> ids;
  for (const auto& c : Sampler(options, std::ssize(logits)).candidates(logits)) ids.push_back(c.id);
  return ids;
}

const std::vector<double> kWeights = {1, 8, 2, 5, 4};  // of 20

TEST(Sampler, TemperatureZero_TakesTheLargestAndTheLowerIdOfEquals) {
  Sampler sampler({.temperature = 0}, 5);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 2, 3, -1}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-5, -4, -4, -9, -4}), 1);
}

TEST(Sampler, NoFilter_KeepsTheModelsDistribution) {
  const auto logits = logits_of(kWeights);
  const auto candidates = Sampler({.temperature = 1}, 5).candidates(logits);
  ASSERT_EQ(candidates.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(candidates[i].id, static_cast<int32_t>(i));
    EXPECT_NEAR(candidates[i].weight, kWeights[i] / 8, 1e-6);
  }
}

TEST(Sampler, Temperature_DividesTheLogits) {
  const auto candidates = Sampler({.temperature = 0.5}, 5).candidates(logits_of(kWeights));
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(candidates[i].weight, std::pow(kWeights[i] / 8, 2), 1e-6);
}

TEST(Sampler, TopK_KeepsTheMostLikelyAndTheLowerIdOfEquals) {
  EXPECT_EQ(survivors({.temperature = 1, .top_k = 2}, logits_of(kWeights)),
            (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(survivors({.temperature = 1, .top_k = 9}, logits_of(kWeights)).size(), 5u);
  EXPECT_EQ(survivors({.temperature = 1, .top_k = 2}, {2, 7, 2, 2}), (std::vector<int32_t>{0, 1}));
}

TEST(Sampler, TopP_KeepsTheFewestThatReachIt) {
  const auto logits = logits_of(kWeights);  // sorted shares: 0.40 0.65 0.85 0.95 1.00
  EXPECT_EQ(survivors({.temperature = 1, .top_p = 1e-9}, logits), (std::vector<int32_t>{1}));
  EXPECT_EQ(survivors({.temperature = 1, .top_p = 0.39}, logits), (std::vector<int32_t>{1}));
  EXPECT_EQ(survivors({.temperature = 1, .top_p = 0.41}, logits), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(survivors({.temperature = 1, .top_p = 0.84}, logits), (std::vector<int32_t>{1, 3, 4}));
  EXPECT_EQ(survivors({.temperature = 1, .top_p = 0.96}, logits).size(), 5u);
}

TEST(Sampler, MinP_DropsWhatIsUnlikelyBesideTheMostLikely) {
  const auto logits = logits_of(kWeights);
  EXPECT_EQ(survivors({.temperature = 1, .min_p = 0.49}, logits), (std::vector<int32_t>{1, 3, 4}));
  EXPECT_EQ(survivors({.temperature = 1, .min_p = 0.51}, logits), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(survivors({.temperature = 1, .min_p = 1}, logits), (std::vector<int32_t>{1}));
}

// Each of these would leave other tokens in another order of filters.
TEST(Sampler, Filters_ApplyInTheirOrder) {
  const auto logits = logits_of(kWeights);
  // top-k 3 leaves 8, 5, 4 of 17, where 8 + 5 reach 0.7; of all 20 they would not (0.65).
  EXPECT_EQ(survivors({.temperature = 1, .top_k = 3, .top_p = 0.7}, logits),
            (std::vector<int32_t>{1, 3}));
  // Temperature first: at 0.5 the shares are 64, 25, 16, 4, 1 of 110, and 64 + 25 reach 0.8.
  EXPECT_EQ(survivors({.temperature = 0.5, .top_p = 0.8}, logits), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(survivors({.temperature = 0.5, .min_p = 0.3}, logits), (std::vector<int32_t>{1, 3}));
}

TEST(Sampler, IdsFromTheLimitOn_AreNeverCandidates) {
  const std::vector<float> logits = {1, 2, 50, 50};
  EXPECT_EQ(Sampler({.temperature = 0}, 2).sample(logits), 1);
  Sampler sampler({.temperature = 10}, 2);
  for (int i = 0; i < 100; ++i) EXPECT_LT(sampler.sample(logits), 2);
}

TEST(Sampler, SameSeed_SameDraws) {
  const auto logits = logits_of(kWeights);
  Sampler a({.temperature = 1, .seed = 7}, 5), b({.temperature = 1, .seed = 7}, 5);
  Sampler other({.temperature = 1, .seed = 8}, 5);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const int32_t id = a.sample(logits);
    EXPECT_EQ(id, b.sample(logits));
    different += id != other.sample(logits);
  }
  EXPECT_GT(different, 0);
}

// The draw is the inverse of the cumulative weights, walked by id, at Random's next number.
TEST(Sampler, Draw_FollowsTheDocumentedRule) {
  const auto logits = logits_of(kWeights);
  Sampler sampler({.temperature = 1, .seed = 3}, 5);
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    double rest = random.uniform() * 20;
    int32_t expected = 0;
    while (rest >= kWeights[static_cast<size_t>(expected)])
      rest -= kWeights[static_cast<size_t>(expected++)];
    ASSERT_EQ(sampler.sample(logits), expected) << "draw " << i;
  }
}

TEST(Sampler, Frequencies_MatchTheProbabilities) {
  const auto logits = logits_of(kWeights);
  Sampler sampler({.temperature = 1, .seed = 1}, 5);
  std::map<int32_t, int> counts;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) ++counts[sampler.sample(logits)];
  for (int32_t id = 0; id < 5; ++id) {
    const double p = kWeights[static_cast<size_t>(id)] / 20;
    EXPECT_NEAR(counts[id], draws * p, 5 * std::sqrt(draws * p * (1 - p))) << id;
  }
}

TEST(Sampler, LogitThatIsNotFinite_IsAnErrorThatNamesItsToken) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const double temperature : {0.0, 1.0}) {
      Sampler sampler({.temperature = temperature}, 3);
      try {
        sampler.sample(std::vector<float>{1, 2, bad});
        FAIL();
      } catch (const NumericsError& error) {
        EXPECT_NE(std::string(error.what()).find("token 2"), std::string::npos);
      }
    }
  }
}

TEST(Sampler, OptionOutOfRange_IsAnErrorThatNamesIt) {
  const auto message = [](const SamplerOptions& options) -> std::string {
    try {
      options.validate();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message({.temperature = -1}), testing::HasSubstr("temperature is -1"));
  EXPECT_THAT(message({.temperature = nan}), testing::HasSubstr("temperature"));
  EXPECT_THAT(message({.top_k = -3}), testing::HasSubstr("top-k is -3"));
  EXPECT_THAT(message({.top_p = 0}), testing::HasSubstr("top-p is 0"));
  EXPECT_THAT(message({.top_p = 1.1}), testing::HasSubstr("top-p is 1.1"));
  EXPECT_THAT(message({.min_p = 2}), testing::HasSubstr("min-p is 2"));
  EXPECT_EQ(message({}), "");
}

}  // namespace
}  // namespace taper
