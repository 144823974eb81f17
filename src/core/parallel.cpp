#include "core/parallel.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace taper {
namespace {

// Work of one decoded layer is about 20 microseconds and waking a sleeping thread costs as much, so
// a waiting thread spins this long first.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kMaxThreads = 1024;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or kSpin has passed; returns ready().
template <typename Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

int available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

// The state of the current job in one word, so that a thread that wakes late cannot take a range of
// a later job by mistake: generation << 32 | next range << 16 | number of ranges.
using Ticket = uint64_t;
uint32_t next_range(Ticket ticket) { return static_cast<uint32_t>(ticket >> 16) & 0xffff; }
uint32_t num_ranges(Ticket ticket) { return static_cast<uint32_t>(ticket) & 0xffff; }
bool has_work(Ticket ticket) { return next_range(ticket) < num_ranges(ticket); }

}  // namespace

struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  std::atomic<Ticket> ticket{0};
  std::atomic<uint32_t> done{0};  // ranges finished of the current job
  std::atomic<bool> stop{false};
  bool running = false;  // the caller's own, to catch nesting

  // The current job. Written before the ticket is published, read only by a thread that took a
  // range.
  ErasedBody call = nullptr;
  const void* body = nullptr;
  int64_t count = 0;

  std::mutex mutex;  // for sleeping and for `error`
  std::condition_variable wake_workers, wake_caller;
  std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::exception_ptr error;

  // Takes ranges until none is left.
  void work() {
    Ticket current = ticket.load();
    while (has_work(current)) {
      if (!ticket.compare_exchange_weak(current, current + (Ticket{1} << 16))) continue;
      run_range(next_range(current), num_ranges(current));
      current = ticket.load();
    }
  }

  void run_range(int64_t index, int64_t ranges) {
    const int64_t quotient = count / ranges, remainder = count % ranges;
    const int64_t begin = index * quotient + std::min(index, remainder);
    const int64_t end = begin + quotient + (index < remainder ? 1 : 0);
    try {
      call(body, {begin, end}, static_cast<int>(index));
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
    if (done.fetch_add(1) + 1 == static_cast<uint32_t>(ranges) && caller_sleeps.load()) {
      { const std::lock_guard lock(mutex); }
      wake_caller.notify_one();
    }
  }

  void worker_loop() {
    while (!stop.load()) {
      work();
      const auto ready = [this] { return stop.load() || has_work(ticket.load()); };
      if (spin_until(ready)) continue;
      std::unique_lock lock(mutex);
      ++sleeping_workers;
      wake_workers.wait(lock, ready);
      --sleeping_workers;
    }
  }

  void wait_until_done(uint32_t ranges) {
    const auto ready = [this, ranges] { return done.load() == ranges; };
    if (spin_until(ready)) return;
    std::unique_lock lock(mutex);
    caller_sleeps = true;
    wake_caller.wait(lock, ready);
    caller_sleeps = false;
  }

  void end() {
    stop = true;
    notify_workers();
    for (std::thread& worker : workers) worker.join();
  }

  void notify_workers() {
    if (sleeping_workers.load() == 0) return;
    { const std::lock_guard lock(mutex); }  // no worker is between its check and its sleep
    wake_workers.notify_all();
  }
};

ThreadPool::ThreadPool(int threads)
    : size_(std::min(threads > 0 ? threads : available_cores(), kMaxThreads)) {
  if (size_ == 1) return;
  impl_ = std::make_unique<Impl>();
  try {
    for (int i = 1; i < size_; ++i)
      impl_->workers.emplace_back([impl = impl_.get()] { impl->worker_loop(); });
  } catch (const std::system_error& error) {
    // Fewer threads would change nothing but speed, yet silently: say so instead.
    impl_->end();
    throw ResourceError(fmt::format("cannot start {} threads: {}", size_, error.what()),
                        "use fewer threads, or raise the limit (ulimit -u)");
  }
}

ThreadPool::~ThreadPool() {
  if (impl_) impl_->end();
}

void ThreadPool::run_erased(int64_t count, int64_t grain, ErasedBody call, const void* body) {
  if (count <= 0) return;
  const int64_t ranges = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, size_);
  if (ranges == 1) {
    TAPER_CHECK(!impl_ || !impl_->running);
    call(body, {0, count}, 0);
    return;
  }
  Impl& pool = *impl_;
  TAPER_CHECK(!pool.running);
  pool.running = true;
  pool.call = call;
  pool.body = body;
  pool.count = count;
  pool.done = 0;
  const Ticket generation = (pool.ticket.load() >> 32) + 1;
  pool.ticket = generation << 32 | static_cast<Ticket>(ranges);
  pool.notify_workers();
  pool.work();
  pool.wait_until_done(static_cast<uint32_t>(ranges));
  pool.running = false;
  if (pool.error) std::rethrow_exception(std::exchange(pool.error, nullptr));
}

}  // namespace taper
