#include "infer/stop_filter.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace taper {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty())
      throw ConfigError("a stop string is empty", "it would end every text at once");
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  size_t shown = std::string::npos;
  for (const std::string& stop : stops_) shown = std::min(shown, held_.find(stop));
  if (shown != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, "").substr(0, shown);
  }
  size_t kept = 0;  // the longest end of the text that begins a stop string
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > kept; --size)
      if (held_.ends_with(std::string_view(stop).substr(0, size))) kept = size;
  }
  std::string result = held_.substr(0, held_.size() - kept);
  held_.erase(0, result.size());
  return result;
}

std::string StopFilter::flush() { return std::exchange(held_, ""); }

}  // namespace taper
