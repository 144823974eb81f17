#include "text/utf8_stream.h"

#include "text/unicode.h"

namespace taper {
namespace {

// Whether more bytes could make `tail` a character: a well-formed beginning that is too short.
bool may_become_character(std::string_view tail) {
  const size_t claimed = utf8_claimed_length(static_cast<unsigned char>(tail[0]));
  if (tail.size() >= claimed) return false;
  // Any completion will do; these two cover the second-byte limits of E0, ED, F0 and F4.
  for (const char filler : {'\x80', '\xBF'}) {
    std::string whole(tail);
    whole.resize(claimed, filler);
    if (utf8_sequence_length(whole) == claimed) return true;
  }
  return false;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  return take(false);
}

std::string Utf8Stream::flush() { return take(true); }

std::string Utf8Stream::take(bool all) {
  std::string out;
  size_t i = 0;
  while (i < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(i);
    const size_t length = utf8_sequence_length(rest);
    if (length > 0) {
      out += rest.substr(0, length);
      i += length;
      continue;
    }
    if (!all && may_become_character(rest)) break;
    if (invalid_ == Invalid::kReplace)
      out += "\xEF\xBF\xBD";
    else
      out += rest[0];
    ++i;
  }
  held_.erase(0, i);
  return out;
}

}  // namespace taper
