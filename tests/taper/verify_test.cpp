#include "taper/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/error_matchers.h"

namespace taper {
namespace {

TEST(LogitComparison, LargestDifference_IsFoundWithItsPlace) {
  LogitComparison comparison;
  comparison.add(std::vector<float>{1, -4, 2}, std::vector<float>{1, -4, 2.5});
  comparison.add(std::vector<float>{0.1f, 0.2f, 0.5f}, std::vector<float>{0.1f, 0.3f, 0.5f});
  comparison.add(std::vector<float>{100, 0, 0}, std::vector<float>{101, 0, 0});
  EXPECT_EQ(comparison.positions(), 3);
  EXPECT_EQ(comparison.max_abs_difference(), 1);
  EXPECT_NEAR(comparison.max_rel_difference(), 0.2, 1e-6);  // 0.1 / 0.5
  EXPECT_EQ(comparison.worst_position(), 1);
  EXPECT_EQ(comparison.worst_token(), 1);
  comparison.require_within(0.21, "fold");
  EXPECT_ERROR(comparison.require_within(0.19, "fold"), NumericsError, "fold", "position 1",
               "token 1");
}

TEST(LogitComparison, EqualLogits_DifferByNothing) {
  LogitComparison comparison;
  comparison.add(std::vector<float>{0, 0}, std::vector<float>{0, 0});
  comparison.add(std::vector<float>{3, -2}, std::vector<float>{3, -2});
  EXPECT_EQ(comparison.max_abs_difference(), 0);
  EXPECT_EQ(comparison.max_rel_difference(), 0);
  EXPECT_EQ(comparison.worst_position(), -1);
  comparison.require_within(0, "fold");
}

TEST(LogitComparison, NonFiniteLogits_NeverPass) {
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const bool in_reference : {false, true}) {
      LogitComparison comparison;
      const std::vector<float> good = {1, 2}, wrong = {1, bad};
      comparison.add(in_reference ? wrong : good, in_reference ? good : wrong);
      EXPECT_ERROR(comparison.require_within(1e9, "fold"), NumericsError, "token 1");
    }
    LogitComparison both;
    both.add(std::vector<float>{bad, bad}, std::vector<float>{bad, bad});
    EXPECT_ERROR(both.require_within(1e9, "fold"), NumericsError, "fold");
  }
}

TEST(LogitComparison, DifferenceFromZeroLogits_IsInfinite) {
  LogitComparison comparison;
  comparison.add(std::vector<float>{0, 0}, std::vector<float>{0, 1});
  EXPECT_ERROR(comparison.require_within(1e9, "fold"), NumericsError, "fold");
}

TEST(FoldTolerance, GrowsWithTheNoiseUntilNothingCanBeJudged) {
  EXPECT_EQ(fold_tolerance(0, "fold"), kLogitTolerance);
  EXPECT_EQ(fold_tolerance(1e-4, "fold"), kNoiseMultiple * 1e-4);
  for (const double noise : {0.5, HUGE_VAL, std::nan("")})
    EXPECT_ERROR(fold_tolerance(noise, "f"), NumericsError, "f: cannot be verified");
}

TEST(LogitComparison, NothingCompared_IsNotAProof) {
  EXPECT_ERROR(LogitComparison().require_within(1, "fold"), NumericsError, "no logits");
}

}  // namespace
}  // namespace taper
