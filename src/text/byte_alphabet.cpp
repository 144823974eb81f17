#include "text/byte_alphabet.h"

#include <array>

#include "text/unicode.h"

namespace taper {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<int16_t, 0x144> bytes{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.bytes) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t c = stands_for_itself(byte) ? byte : next++;
    alphabet.chars[byte] = c;
    alphabet.bytes[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_to_char(unsigned char byte) { return kAlphabet.chars[byte]; }

std::optional<unsigned char> char_to_byte(char32_t character) {
  if (character >= kAlphabet.bytes.size() || kAlphabet.bytes[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(kAlphabet.bytes[character]);
}

std::string bytes_to_chars(std::string_view bytes) {
  std::string chars;
  for (const char byte : bytes) append_utf8(chars, byte_to_char(static_cast<unsigned char>(byte)));
  return chars;
}

std::optional<std::string> chars_to_bytes(std::string_view chars) {
  std::string bytes;
  while (!chars.empty()) {
    const size_t length = utf8_sequence_length(chars);
    if (length == 0) return std::nullopt;
    const auto byte = char_to_byte(utf8_code_point(chars.substr(0, length)));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    chars.remove_prefix(length);
  }
  return bytes;
}

}  // namespace taper
