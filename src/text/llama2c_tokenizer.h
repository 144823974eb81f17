// The tokenizer file of llama2.c (tokenizer.bin, tok512.bin), as a tokenizer.json.
//
// Layout, little-endian: int32 length of the longest entry; then per entry float score, int32
// length, bytes. Entries 0, 1, 2 are unknown, BOS and EOS, 3..258 the byte tokens. llama2.c encodes
// by joining, again and again, the neighbours whose joint entry has the best score (the first among
// equals), after one dummy leading space. The JSON says the same as a list of merges: by falling
// score of the result, every way to split it being a merge.
//
// FormatError for a malformed file, and for one whose rule a list of merges cannot express (two
// entries made by merges that share a score).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace taper {

std::string llama2c_tokenizer_to_json(std::span<const std::byte> file, const std::string& what);

}  // namespace taper
