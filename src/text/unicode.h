// UTF-8 as the tokenizers see it: code points and the four classes of the GPT-2 split pattern.
//
// Text need not be valid UTF-8. Every byte that does not belong to a well-formed sequence (stray or
// missing continuation bytes, overlong forms, surrogates, values above U+10FFFF) counts as one
// character of class kOther, so that it is split like punctuation and kept as it is. Categories are
// those of utf8proc: kLetter is \p{L}, kNumber \p{N}, kSpace the White_Space property.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace taper {

enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// Length of the well-formed sequence at the start of `text` (1 to 4), 0 if there is none.
size_t utf8_sequence_length(std::string_view text);

// Length a sequence with this first byte claims to have: 1 to 4, 0 for a byte that cannot begin
// one.
size_t utf8_claimed_length(unsigned char first);

// The code point of a well-formed sequence.
char32_t utf8_code_point(std::string_view sequence);
void append_utf8(std::string& out, char32_t code_point);

CharClass char_class(char32_t code_point);

struct TextChar {
  CharClass char_class;
  uint8_t length;  // bytes; 1 for an invalid byte
};

// Class and length of the character at `text[position]`, position < text.size().
TextChar text_char_slow(std::string_view text, size_t position);
extern const std::array<CharClass, 128> kAsciiClass;
inline TextChar text_char(std::string_view text, size_t position) {
  const unsigned char byte = static_cast<unsigned char>(text[position]);
  if (byte < 128) return {kAsciiClass[byte], 1};
  return text_char_slow(text, position);
}

// `text` without leading and trailing ASCII white space (space, \t, \n, \v, \f, \r).
std::string_view trim_space(std::string_view text);

}  // namespace taper
