#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace taper {
namespace {

class ThreadPoolOfSize : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOfSize, Run_CoversEveryIndexOnceInFewRanges) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (const int64_t count : {0, 1, 2, 3, 5, 7, 64, 229, 1000}) {
    for (const int64_t grain : {0, 1, 3, 100, 5000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::atomic<int> ranges = 0;
      pool.run(count, grain, [&](Range range) {
        EXPECT_GT(range.size(), 0);
        EXPECT_GE(range.size(), std::min(count, std::max<int64_t>(grain, 1)));
        ++ranges;
        for (int64_t i = range.begin; i < range.end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& times : seen) ASSERT_EQ(times, 1);
      EXPECT_LE(ranges, pool.size());
    }
  }
}

TEST_P(ThreadPoolOfSize, ManyShortRuns_AreAllDoneWhenRunReturns) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> sums(64);
  for (int round = 0; round < 3000; ++round) {
    pool.run(64, 1, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; ++i) sums[static_cast<size_t>(i)] += i;
    });
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), (round + 1) * 64 * 63 / 2);
    // Now and then long enough for the workers to fall asleep.
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_P(ThreadPoolOfSize, Exception_ReachesTheCallerAndThePoolWorksOn) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> ranges = 0;
    EXPECT_THROW(pool.run(16, 1,
                          [&](Range range) {
                            ++ranges;
                            if (range.begin == 0) throw std::runtime_error("first");
                          }),
                 std::runtime_error);
    EXPECT_EQ(ranges, std::min(pool.size(), 16));  // the others still ran
    std::atomic<int64_t> sum = 0;
    pool.run(16, 1, [&](Range range) { sum += range.size(); });
    EXPECT_EQ(sum, 16);
  }
}

TEST_P(ThreadPoolOfSize, Parts_AreDifferentNumbersBelowTheSize) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(pool.size()));
    pool.run(1000, 1, [&](Range, int part) { ++seen.at(static_cast<size_t>(part)); });
    for (const auto& times : seen) ASSERT_EQ(times, 1);
  }
}

TEST_P(ThreadPoolOfSize, RunBlocks_CutsAtTheSamePlacesWhateverTheSize) {
  ThreadPool pool(GetParam());
  for (const int64_t count : {0, 1, 9, 10, 11, 229}) {
    std::vector<Range> blocks(static_cast<size_t>(num_blocks(count, 10)));
    pool.run_blocks(count, 10, [&](int64_t block, Range range) {
      blocks.at(static_cast<size_t>(block)) = range;
    });
    int64_t end = 0;
    for (const Range& range : blocks) {
      EXPECT_EQ(range.begin, end);
      EXPECT_TRUE(range.size() == 10 || range.end == count);
      end = range.end;
    }
    EXPECT_EQ(end, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOfSize, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, SlowRanges_RunOnDifferentThreadsAndTheCallerTakesPart) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.run(3, 1, [&](Range) {
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  EXPECT_GE(threads.size(), 2u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1u);
}

TEST(ThreadPool, NestedRun_IsRefused) {
  ThreadPool pool(2);
  const auto nest = [&](Range) { pool.run(2, 1, [](Range) {}); };
  EXPECT_THROW(pool.run(2, 1, nest), std::logic_error);
}

TEST(ThreadPool, DefaultSize_IsAtLeastOne) { EXPECT_GE(ThreadPool().size(), 1); }

TEST(ThreadPool, UnusedPool_EndsItsThreadsAwakeOrAsleep) {
  const auto num_threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = num_threads();
  for (const int milliseconds : {0, 3}) {
    ThreadPool pool(4);
    EXPECT_EQ(num_threads(), before + 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  // The kernel lists a joined thread for a moment longer.
  for (int wait = 0; wait < 1000 && num_threads() != before; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace taper
