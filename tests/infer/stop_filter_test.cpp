#include "infer/stop_filter.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace taper {
namespace {

TEST(StopFilter, NoStopStrings_ShowsEverythingAtOnce) {
  StopFilter filter({});
  EXPECT_EQ(filter.push("one"), "one");
  EXPECT_EQ(filter.push(""), "");
  EXPECT_EQ(filter.flush(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, PossibleBeginning_IsHeldBackUntilItIsDecided) {
  StopFilter filter({"###"});
  EXPECT_EQ(filter.push("a#"), "a");
  EXPECT_EQ(filter.push("#"), "");
  EXPECT_EQ(filter.push("b"), "##b");
  EXPECT_EQ(filter.push("##"), "");
  EXPECT_EQ(filter.flush(), "##");
}

TEST(StopFilter, StopAcrossPieces_EndsBeforeItAndShowsNothingMore) {
  StopFilter filter({"the end"});
  EXPECT_EQ(filter.push("and th"), "and ");
  EXPECT_EQ(filter.push("e en"), "");
  EXPECT_EQ(filter.push("d of it"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.flush(), "");
}

TEST(StopFilter, BeginningThatRestarts_IsFound) {
  StopFilter filter({"aab"});
  EXPECT_EQ(filter.push("aaa"), "a");  // the last two may still begin the stop string
  EXPECT_EQ(filter.push("b"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, SeveralStops_TheEarliestInTheTextWins) {
  StopFilter filter({"zebra", "cd", "bcd"});
  EXPECT_EQ(filter.push("ab"), "a");
  EXPECT_EQ(filter.push("cdz zebra"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, AnyCutOfTheText_ShowsTheSame) {
  const std::string text = "x\n\n\nUser: hi \xE2\x82\xAC\n\nUse";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      StopFilter filter({"\n\nUser: hi \xE2\x82\xAC", "never"});
      std::string shown = filter.push(text.substr(0, first));
      shown += filter.push(text.substr(first, second - first));
      shown += filter.push(text.substr(second));
      shown += filter.flush();
      ASSERT_EQ(shown, "x\n") << first << " " << second;
    }
  }
}

TEST(StopFilter, EmptyStop_IsAnError) { EXPECT_THROW(StopFilter({"a", ""}), ConfigError); }

}  // namespace
}  // namespace taper
