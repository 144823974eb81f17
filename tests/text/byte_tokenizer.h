// A tokenizer of single bytes: id 0 is end-of-text, b + 1 the byte b, and 257 the BOS token where
// there is one.
#pragma once

#include <string>

#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"

namespace taper::test {

inline constexpr TokenId kByteBos = 257;

inline std::string byte_tokenizer_json(bool with_bos = false) {
  TokenizerSpec spec;
  spec.vocab = {std::string(kEndOfText)};
  for (int byte = 0; byte < 256; ++byte)
    spec.vocab.push_back(bytes_to_chars(std::string(1, static_cast<char>(byte))));
  spec.added = {{0, std::string(kEndOfText)}};
  spec.steps = {SplitStep::kGpt2};
  spec.eos = 0;
  if (with_bos) {
    spec.vocab.push_back("<s>");
    spec.added.push_back({kByteBos, "<s>"});
    spec.bos = kByteBos;
  }
  return tokenizer_spec_to_json(spec);
}

}  // namespace taper::test
