#include "train/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "train/tiny_run.h"

namespace taper {
namespace {

using testing::ElementsAre;

// Tokens 0, 1, 2, ..., with BOS (7) at 0, 10, 25 and end-of-text (8) before 40.
TokenShard numbered_shard(const TempDir& folder) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 60; ++i) ids.push_back(100 + i);
  ids[0] = ids[10] = ids[25] = 7;
  ids[39] = 8;
  test::write_shard(folder / "a.tok", ids, 200, 1);
  return TokenShard(folder / "a.tok");
}

int64_t input(const Batch& batch, int64_t row, int64_t t) {
  return batch.inputs.at(static_cast<size_t>(row * batch.window + t));
}
int64_t target(const Batch& batch, int64_t row, int64_t t) {
  return batch.targets.at(static_cast<size_t>(row * batch.window + t));
}

TEST(Data, DocumentStarts_AreEachBosAndTheTokenBehindEachEnd) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  EXPECT_THAT(document_starts(shard, {7, 8}), ElementsAre(0, 10, 25, 40));
  EXPECT_THAT(document_starts(shard, {-1, 8}), ElementsAre(0, 40));
  EXPECT_THAT(document_starts(shard, {-1, -1}), ElementsAre(0));
}

TEST(Data, RandomWindows_AreShiftedByOneAndReachBothEnds) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  const WindowSampler sampler(shard, 5, 3);
  std::set<int64_t> lasts;
  for (int64_t index = 0; index < 200; ++index) {
    const Batch batch = sampler.random(index, 4);
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t t = 1; t < 5; ++t) EXPECT_EQ(input(batch, row, t), target(batch, row, t - 1));
      lasts.insert(target(batch, row, 4));
    }
  }
  EXPECT_TRUE(lasts.contains(105)) << "the first window";
  EXPECT_TRUE(lasts.contains(159)) << "the last token of the shard is a target";
}

TEST(Data, RandomWindows_DependOnSeedAndIndexAlone) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  const WindowSampler one(shard, 5, 3), same(shard, 5, 3), other(shard, 5, 4);
  EXPECT_EQ(one.random(9, 8).inputs, same.random(9, 8).inputs);
  EXPECT_NE(one.random(9, 8).inputs, one.random(10, 8).inputs);
  EXPECT_NE(one.random(9, 8).inputs, other.random(9, 8).inputs);
}

// A prefetch is a hint and changes no window, wherever it lies.
TEST(Data, Prefetch_LeavesTheWindowsAsTheyAre) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  const WindowSampler sampler(shard, 59, 3);  // the only window reaches the end of the file
  const Batch before = sampler.random(7, 4);
  sampler.prefetch(7, 4);
  EXPECT_EQ(sampler.random(7, 4).targets, before.targets);
  EXPECT_THROW(shard.will_need(50, 11), std::logic_error);
}

TEST(Data, MixedStarts_TakeDocumentsForEvenRows) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  const WindowSampler sampler(shard, 5, 3, WindowStart::kMixed, {0, 10, 25, 57});
  std::set<int64_t> even, odd;
  for (int64_t index = 0; index < 100; ++index) {
    const Batch batch = sampler.random(index, 4);
    for (int64_t row = 0; row < 4; ++row) (row % 2 == 0 ? even : odd).insert(target(batch, row, 4));
  }
  EXPECT_THAT(even, ElementsAre(105, 115, 130)) << "57 leaves no room for a window";
  EXPECT_GT(odd.size(), 30u);
}

TEST(Data, FixedWindows_DoNotOverlapAndSpreadOverTheShard) {
  TempDir folder;
  const TokenShard shard = numbered_shard(folder);
  const FixedWindows all(shard, 5, 0), some(shard, 5, 3);
  EXPECT_EQ(all.size(), 11);
  ASSERT_EQ(some.size(), 3);
  const Batch batch = some.batch(0, 3);
  EXPECT_EQ(target(batch, 0, 0), 101);
  EXPECT_EQ(target(batch, 1, 0), 116);
  EXPECT_EQ(target(batch, 2, 0), 136);
  EXPECT_EQ(all.batch(10, 4).rows, 1) << "the last batch is short";
}

TEST(Data, UnknownStart_IsNamed) {
  EXPECT_THROW(parse_window_start("middle", "a.toml"), ConfigError);
}

}  // namespace
}  // namespace taper
