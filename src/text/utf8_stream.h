// Turns a stream of byte pieces, such as the bytes of generated tokens, into pieces of whole
// characters.
//
// push() returns what can be shown now: everything but the beginning of a character whose other
// bytes may still come. With kPassThrough the joined output is the joined input, byte for byte;
// with kReplace every invalid byte comes out as U+FFFD, so that the output is always valid UTF-8.
// At most 3 bytes are held.
#pragma once

#include <string>
#include <string_view>

namespace taper {

class Utf8Stream {
 public:
  enum class Invalid { kPassThrough, kReplace };
  explicit Utf8Stream(Invalid invalid = Invalid::kReplace) : invalid_(invalid) {}

  std::string push(std::string_view bytes);
  std::string flush();  // the rest, an unfinished character included; the stream starts afresh
  size_t held() const { return held_.size(); }

 private:
  std::string take(bool all);

  Invalid invalid_;
  std::string held_;
};

}  // namespace taper
