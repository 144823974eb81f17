// A pool of threads over which work is split: the only way in which this project uses several.
//
// The calling thread takes part in the work. Waiting threads spin for a moment, then sleep, so that
// a pool nobody uses costs nothing and one beside another busy process gives way.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "core/range.h"

namespace taper {

class ThreadPool {
 public:
  // threads = 0: one per core available to this process (its affinity mask). ResourceError when the
  // system refuses to start them.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();

  int size() const { return size_; }

  // Splits [0, count) into at most size() contiguous ranges of at least `grain` items and runs
  // body(range) or body(range, part) on each, where the parts of one call are different numbers in
  // [0, size()); returns when all are done. The first exception of a body is rethrown. Which ranges
  // there are depends on count, grain and size() alone. Not reentrant, one caller at a time.
  template <class Body>
  void run(int64_t count, int64_t grain, const Body& body) {
    run_erased(
        count, grain,
        [](const void* erased, Range range, int part) {
          const Body& call = *static_cast<const Body*>(erased);
          if constexpr (std::is_invocable_v<const Body&, Range, int>)
            call(range, part);
          else
            call(range);
        },
        &body);
  }

  // Splits [0, count) into blocks of `size` items (the last may be shorter) and those over the
  // threads; body(block, range). What a block holds does not depend on the number of threads.
  template <class Body>
  void run_blocks(int64_t count, int64_t size, const Body& body) {
    run(
        num_blocks(count, size), 1,
        [&](Range blocks) {
          for (int64_t i = blocks.begin; i < blocks.end; ++i) body(i, block_range(i, size, count));
        });
  }

 private:
  struct Impl;
  using ErasedBody = void (*)(const void* body, Range range, int part);

  void run_erased(int64_t count, int64_t grain, ErasedBody call, const void* body);

  int size_ = 1;
  std::unique_ptr<Impl> impl_;  // none for a pool of one
};

}  // namespace taper
