// Ends a stream of text before the first stop string, and never shows a part of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace taper {

class StopFilter {
 public:
  // Stop strings are not empty: ConfigError.
  explicit StopFilter(std::vector<std::string> stops);

  // What of the text so far, with `text` behind it, can be shown now: everything but an end that
  // may be the beginning of a stop string; once one is complete, what lies before it and then
  // nothing.
  std::string push(std::string_view text);
  std::string flush();  // the end that was held back
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace taper
