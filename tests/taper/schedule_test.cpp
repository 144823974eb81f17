#include "taper/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace taper {
namespace {

TEST(GateSchedule, EveryStep_MatchesTheFormula) {
  const GateSchedule schedule{13, 40};
  for (int64_t step = 0; step < 60; ++step) {
    const double progress = static_cast<double>(step - 13) / 27.0;
    const double expected = step < 13   ? 1.0
                            : step < 40 ? (1 + std::cos(std::numbers::pi * progress)) / 2
                                        : 0.0;
    EXPECT_EQ(schedule.gate(step), expected) << step;
  }
}

TEST(GateSchedule, Ends_AreExactAndTheGateFalls) {
  const GateSchedule schedule{5, 1005};
  EXPECT_EQ(schedule.gate(4), 1.0);
  EXPECT_EQ(schedule.gate(5), 1.0);
  EXPECT_EQ(schedule.gate(1005), 0.0);
  EXPECT_EQ(schedule.gate(1 << 30), 0.0);
  EXPECT_DOUBLE_EQ(schedule.gate(505), 0.5);
  for (int64_t step = 6; step <= 1005; ++step)
    EXPECT_LT(schedule.gate(step), schedule.gate(step - 1)) << step;
}

TEST(GateSchedule, Phases_ChangeAtStartAndEnd) {
  const GateSchedule schedule{5, 9};
  EXPECT_EQ(schedule.phase(0), "warmup");
  EXPECT_EQ(schedule.phase(4), "warmup");
  EXPECT_EQ(schedule.phase(5), "taper");
  EXPECT_EQ(schedule.phase(8), "taper");
  EXPECT_EQ(schedule.phase(9), "settle");
}

TEST(GateSchedule, StartAtZero_HasNoWarmup) {
  const GateSchedule schedule{0, 2};
  EXPECT_EQ(schedule.phase(0), "taper");
  EXPECT_EQ(schedule.gate(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.gate(1), 0.5);
  EXPECT_EQ(schedule.gate(2), 0.0);
}

}  // namespace
}  // namespace taper
