#include "core/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace taper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTerminalPeriod = std::chrono::milliseconds(200);
constexpr auto kPipedPeriod = std::chrono::seconds(10);

std::atomic<LogLevel> log_level{LogLevel::kNormal};

// What is on stderr right now; every write goes through it, so that lines of threads do not mix.
struct Screen {
  std::mutex mutex;
  bool line_open = false;  // a progress line without its newline
  std::set<std::string> warned;

  void print(const std::string& line) {
    const std::string text = (line_open ? "\r\033[K" : "") + line + "\n";
    line_open = false;
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  }
};

Screen& screen() {
  static Screen instance;
  return instance;
}

std::string format_count(double value) {
  if (value >= 1e10) return fmt::format("{:.1f}G", value / 1e9);
  if (value >= 1e7) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

}  // namespace

void set_log_level(LogLevel level) { log_level = level; }

void log_line(const std::string& text) {
  if (log_level == LogLevel::kQuiet) return;
  const std::lock_guard lock(screen().mutex);
  screen().print(text);
}

void log_warning(const std::string& text) {
  const std::lock_guard lock(screen().mutex);
  if (screen().warned.insert(text).second) screen().print("warning: " + text);
}

Progress::Progress(std::string label, int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_draw_(start_) {}

Progress::~Progress() {
  const std::lock_guard lock(screen().mutex);
  if (terminal_ && drawn_ && screen().line_open) {
    std::fputc('\n', stderr);
    screen().line_open = false;
  }
}

void Progress::update(int64_t done, const std::string& detail) {
  if (log_level == LogLevel::kQuiet) return;
  const auto now = Clock::now();
  const bool last = done >= total_ && total_ > 0;
  if (terminal_) {
    if (drawn_ && !last && now - last_draw_ < kTerminalPeriod) return;
  } else if (now - last_draw_ < kPipedPeriod) {
    return;
  }
  last_draw_ = now;
  draw(done, detail);
  drawn_ = true;
}

void Progress::draw(int64_t done, const std::string& detail) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line = label_;
  if (total_ > 0) {
    const double share = 100.0 * static_cast<double>(done) / static_cast<double>(total_);
    line += fmt::format(" {:3.0f} %", std::min(share, 100.0));
  } else {
    line += fmt::format(" {} {}", format_count(static_cast<double>(done)), unit_);
  }
  line += fmt::format("  {} {}/s", format_count(rate), unit_);
  if (total_ > done && rate > 0)
    line += fmt::format("  {} left", format_duration(static_cast<double>(total_ - done) / rate));
  if (!detail.empty()) line += "  " + detail;

  const std::lock_guard lock(screen().mutex);
  if (!terminal_) {
    screen().print(line);
    return;
  }
  const std::string text = "\r\033[K" + line;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  screen().line_open = true;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<int64_t>(std::llround(std::min(seconds, 1e12)));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  if (hours > 0) return fmt::format("{}h {:02d}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m {:02d}s", minutes, rest);
  return fmt::format("{}s", rest);
}

}  // namespace taper
