// A small thread pool for the torch-free code. The calling thread takes part in the work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace taper {

class ThreadPool {
 public:
  // threads = 0: one per core available to this process (its affinity mask).
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();

  int size() const;

  // Splits [0, count) into at most size() contiguous ranges of at least `grain` items and runs
  // body(begin, end) on each; returns when all are done. The first exception of a body is rethrown.
  // Not reentrant, one caller at a time.
  void run(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taper
