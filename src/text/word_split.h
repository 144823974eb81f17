// The pre-tokenizers of byte-level BPE: text to words, which are encoded one by one.
//
// split_gpt2 is the GPT-2 pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// as a scanner: linear in the text, exact for the Unicode version of utf8proc. split_digits is the
// Digits pre-tokenizer of Hugging Face `tokenizers`: numbers cut off from the rest, one by one or
// as runs. Words are views of `text`, in order, without gaps.
#pragma once

#include <string_view>

#include "text/unicode.h"

namespace taper {

// Length of the contraction at `text[position]` (an apostrophe), 0 if there is none.
inline size_t contraction_length(std::string_view text, size_t position) {
  if (position + 1 >= text.size()) return 0;
  const char first = text[position + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (position + 2 >= text.size()) return 0;
  const char second = text[position + 2];
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
      (first == 'l' && second == 'l'))
    return 3;
  return 0;
}

// End of the run of characters of class `wanted` that begins at `position`.
inline size_t run_end(std::string_view text, size_t position, CharClass wanted) {
  while (position < text.size()) {
    const TextChar next = text_char(text, position);
    if (next.char_class != wanted) break;
    position += next.length;
  }
  return position;
}

template <typename Emit>
void split_gpt2(std::string_view text, Emit&& emit) {
  size_t begin = 0;
  const auto emit_to = [&](size_t end) {
    emit(text.substr(begin, end - begin));
    begin = end;
  };
  while (begin < text.size()) {
    if (text[begin] == '\'') {
      if (const size_t length = contraction_length(text, begin)) {
        emit_to(begin + length);
        continue;
      }
    }
    TextChar first = text_char(text, begin);
    size_t position = begin;
    if (text[begin] == ' ' && begin + 1 < text.size()) {
      first = text_char(text, begin + 1);
      position = begin + 1;
    }
    if (first.char_class != CharClass::kSpace) {
      emit_to(run_end(text, position + first.length, first.char_class));
      continue;
    }
    // White space: all of it at the end of the text, else all but its last character, which belongs
    // to the next word if it is a space.
    size_t last = begin, end = begin;
    while (end < text.size()) {
      const TextChar next = text_char(text, end);
      if (next.char_class != CharClass::kSpace) break;
      last = end;
      end += next.length;
    }
    emit_to(end == text.size() || last == begin ? end : last);
  }
}

template <typename Emit>
void split_digits(std::string_view text, bool individual, Emit&& emit) {
  size_t begin = 0, position = 0;
  const auto flush = [&](size_t end) {
    if (end > begin) emit(text.substr(begin, end - begin));
    begin = end;
  };
  while (position < text.size()) {
    const TextChar next = text_char(text, position);
    if (next.char_class != CharClass::kNumber) {
      position += next.length;
      continue;
    }
    flush(position);
    position = individual ? position + next.length : run_end(text, position, CharClass::kNumber);
    flush(position);
  }
  flush(position);
}

// A place at most `limit` where split_gpt2 ends a word whatever follows: after a character that is
// not white space and before a space. text.size() for a text within the limit and for one without
// such a place.
size_t gpt2_cut_point(std::string_view text, size_t limit);

}  // namespace taper
