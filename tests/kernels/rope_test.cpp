#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "tolerances.h"

namespace taper {
namespace {

TEST(Rope, Rotation_MatchesTheFormulaAtEveryPosition) {
  const double theta = 10000;
  for (const int64_t width : {2, 6, 64}) {
    const RopeTable<float> table(3000, width, theta);
    for (const int64_t position : {0, 1, 17, 511, 2999}) {
      Random random(static_cast<uint64_t>(position));
      const int64_t heads = 3;
      std::vector<float> x(static_cast<size_t>(heads * width));
      for (float& value : x) value = static_cast<float>(random.normal());
      std::vector<float> y = x;
      table.rotate(y.data(), heads, position);
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < width / 2; ++i) {
          const auto first = static_cast<size_t>(head * width + i);
          const auto second = first + static_cast<size_t>(width / 2);
          const double angle =
              static_cast<double>(position) *
              std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
          const double a = x[first], b = x[second];
          const double tolerance = test::kRotationTolerance * std::hypot(a, b);
          EXPECT_NEAR(y[first], a * std::cos(angle) - b * std::sin(angle), tolerance);
          EXPECT_NEAR(y[second], b * std::cos(angle) + a * std::sin(angle), tolerance);
        }
      }
    }
  }
}

// Scores must depend on the distance alone, however far out: positions that were rounded (to bf16,
// beyond 256) would break this.
TEST(Rope, ScoreOfTwoVectors_DependsOnTheirDistanceOnly) {
  const int64_t width = 8;
  const RopeTable<float> table(9000, width, 10000);
  Random random(5);
  std::vector<float> q(width), k(width);
  for (float& value : q) value = static_cast<float>(random.normal());
  for (float& value : k) value = static_cast<float>(random.normal());
  const auto score = [&](int64_t position) {
    std::vector<float> a = q, b = k;
    table.rotate(a.data(), 1, position + 3);
    table.rotate(b.data(), 1, position);
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  };
  for (const int64_t position : {1, 257, 1023, 8990})
    EXPECT_NEAR(score(position), score(0), 4e-6) << position;
}

}  // namespace
}  // namespace taper
