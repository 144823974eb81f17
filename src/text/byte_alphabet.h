// The printable stand-ins that byte-level vocabularies use for bytes: printable Latin-1 bytes stand
// for themselves, the other 68 map to U+0100 and up in order (a space is U+0120, as in GPT-2's
// files).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace taper {

char32_t byte_to_char(unsigned char byte);
std::optional<unsigned char> char_to_byte(char32_t character);

std::string bytes_to_chars(std::string_view bytes);
// The bytes `chars` stands for; nothing when a character stands for no byte.
std::optional<std::string> chars_to_bytes(std::string_view chars);

}  // namespace taper
