#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace taper {
namespace {

using Words = std::array<uint32_t, 4>;

// The known-answer tests that its authors publish for Philox4x32-10 (Random123, kat_vectors).
TEST(Philox, KnownKeysAndCounters_GiveThePublishedWords) {
  EXPECT_EQ(philox(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // counter words 243f6a88 85a308d3 13198a2e 03707344, key words a4093822 299f31d0
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, Words_AreThePhiloxBlocksInOrder) {
  Random random(7, 3);
  for (uint64_t block = 0; block < 5; ++block)
    for (const uint32_t word : philox(7, 3, block)) EXPECT_EQ(random.next_u32(), word);
}

TEST(Random, Uniform_HasTheMomentsOfTheUnitInterval) {
  Random random(1);
  constexpr int kDraws = 200'000;
  double sum = 0, sum_of_squares = 0, smallest = 1, largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.uniform();
    sum += x;
    sum_of_squares += x * x;
    smallest = std::min(smallest, x);
    largest = std::max(largest, x);
  }
  EXPECT_GE(smallest, 0.0);
  EXPECT_LT(largest, 1.0);
  EXPECT_LT(smallest, 1e-4);
  EXPECT_GT(largest, 1 - 1e-4);
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 0.003);
  EXPECT_NEAR(sum_of_squares / kDraws, 1.0 / 3, 0.003);
}

TEST(Random, Normal_HasTheMomentsOfTheStandardNormal) {
  Random random(2);
  constexpr int kDraws = 200'000;
  double moments[5] = {};
  int beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    for (int power = 1; power < 5; ++power) moments[power] += std::pow(x, power) / kDraws;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(moments[1], 0, 0.01);
  EXPECT_NEAR(moments[2], 1, 0.015);
  EXPECT_NEAR(moments[3], 0, 0.04);
  EXPECT_NEAR(moments[4], 3, 0.1);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.0455, 0.003);
}

TEST(Random, SavedPosition_ContinuesAsIfNeverStopped) {
  for (int before = 0; before < 9; ++before) {
    Random whole(11, 5);
    for (int i = 0; i < before; ++i) whole.next_u32();
    whole.normal();
    Random resumed(11, 5, whole.position());
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(whole.next_u64(), resumed.next_u64());
      EXPECT_EQ(whole.normal(), resumed.normal());
      EXPECT_EQ(whole.below(1000), resumed.below(1000));
    }
    EXPECT_EQ(whole.position(), resumed.position());
  }
}

TEST(Random, StreamsAndSeeds_DoNotRepeatEachOther) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t stream = 0; stream < 8; ++stream) {
      Random random(seed, stream);
      for (int i = 0; i < 16; ++i) seen.insert(random.next_u64());
    }
  }
  EXPECT_EQ(seen.size(), 8u * 8u * 16u);
}

TEST(Random, Below_IsEvenOverSmallAndHugeBounds) {
  Random random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 450);
  // With 3 * 2^62 a plain modulo would favour the first quarter of 2^64 two to one.
  const uint64_t bound = uint64_t{3} << 62;
  int low = 0;
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t x = random.below(bound);
    ASSERT_LT(x, bound);
    low += x < bound / 3 ? 1 : 0;
  }
  EXPECT_NEAR(low, 10'000, 400);
  EXPECT_EQ(random.below(1), 0u);
}

}  // namespace
}  // namespace taper
