#include "core/denormals.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace taper {
namespace {

// Computed at run time, whatever the compiler knows.
float half_of(float x) {
  volatile float value = x;
  return value * 0.5f;
}

TEST(FlushDenormals, ResultsBecomeZero_InTheThreadAndThoseItStarts) {
  const float smallest = std::numeric_limits<float>::min();
  std::thread([&] {
    EXPECT_GT(half_of(smallest), 0);
    flush_denormals();
    EXPECT_EQ(half_of(smallest), 0);
    EXPECT_EQ(half_of(2 * smallest), smallest);
    std::thread([&] { EXPECT_EQ(half_of(smallest), 0); }).join();
  }).join();
  EXPECT_GT(half_of(smallest), 0) << "other threads keep their mode";
}

}  // namespace
}  // namespace taper
