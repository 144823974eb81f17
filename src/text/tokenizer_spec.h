// What a tokenizer.json says, as plain data, checked: read by parse_tokenizer_json, written by
// tokenizer_spec_to_json, made by the trainer and the importers, and turned into a Tokenizer.
#pragma once

#include <string>
#include <vector>

#include "core/json.h"
#include "text/bpe_merges.h"
#include "text/tokenizer.h"

namespace taper {

enum class TokenizerKind {
  kByteLevel,      // vocabulary over the byte alphabet (byte_alphabet.h)
  kSentencePiece,  // vocabulary over characters, spaces as U+2581, byte tokens <0x00>..<0xFF>
};

// A pre-tokenizer step of a byte-level model; steps apply in order, each to the words of the one
// before.
enum class SplitStep { kGpt2, kDigits, kDigitRuns, kPrefixSpace };

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = true;
  bool normalized = false;
};

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteLevel;
  std::vector<std::string> vocab;  // by id, as spelled in the file; added tokens included
  std::vector<BpeMerge> merges;    // by rank
  std::vector<AddedToken> added;
  std::vector<SplitStep> steps;  // byte-level only
  bool ignore_merges = false;    // a word that is an entry is that entry (byte-level only)
  bool dummy_prefix = false;     // a leading space before each text (SentencePiece only)
  TokenId unk = -1;              // SentencePiece only
  TokenId bos = -1, eos = -1;
};

// FormatError when the spec is no usable tokenizer: a merge whose result is not left + right, a
// special token that text could spell its way into, missing byte tokens.
void check_tokenizer_spec(const TokenizerSpec& spec, const std::string& what);

// Reads and checks; FormatError naming the part for anything that cannot be reproduced exactly.
TokenizerSpec parse_tokenizer_json(const std::string& text, const std::string& what);

// The canonical text: equal for equal tokenizers, however their files were laid out.
std::string tokenizer_spec_to_json(const TokenizerSpec& spec);

// `json` is the text the spec was read from; empty: the canonical one.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec, const std::string& what,
                                          const std::string& json = "");

// The byte token of a SentencePiece vocabulary, "<0x0A>", and back (-1 for another token).
std::string byte_token(unsigned char byte);
int byte_of_token(std::string_view token);

// The fixed parts of a SentencePiece-style file.
Json space_to_mark_json();
Json prepend_mark_json();
Json mark_decoder_json(bool dummy_prefix);

// The GPT-2 split pattern (word_split.h), as files spell it.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

}  // namespace taper
