// Messages for people, on stderr. Results go to stdout and are not this file's business.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>

namespace taper {

enum class LogLevel { kQuiet, kNormal };
void set_log_level(LogLevel level);  // kQuiet drops info lines and progress; warnings stay

void log_line(const std::string& text);     // info
void log_warning(const std::string& text);  // "warning: ..." (each distinct text once a process)

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

// A progress display for long work. On a terminal it redraws one line several times a second;
// piped, it prints a plain line at most every ten seconds. Shows share done, rate and time left.
class Progress {
 public:
  Progress(std::string label, int64_t total, std::string unit);
  ~Progress();  // finishes the line
  void update(int64_t done, const std::string& detail = "");

 private:
  void draw(int64_t done, const std::string& detail);
  std::string label_, unit_;
  int64_t total_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

// "1h 02m", "3m 05s", "12s".
std::string format_duration(double seconds);

}  // namespace taper
