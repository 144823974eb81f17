#include "text/word_split.h"

namespace taper {

size_t gpt2_cut_point(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  for (size_t i = limit; i > 0; --i) {
    const char before = text[i - 1];
    if (text[i] == ' ' && before > ' ' && before < 0x7F) return i;
  }
  return text.size();
}

}  // namespace taper
