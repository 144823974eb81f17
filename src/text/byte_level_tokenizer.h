// Byte-level BPE: added tokens, pre-tokenizer steps, then BPE over the bytes of each word.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_spec.h"

namespace taper {

class ByteLevelTokenizer final : public Tokenizer {
 public:
  // `spec` has passed check_tokenizer_spec.
  explicit ByteLevelTokenizer(TokenizerSpec spec);

  std::vector<TokenId> encode(std::string_view text, SpecialTokens specials) const override;
  std::string token_bytes(TokenId id) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(bytes_.size()); }
  TokenId token_to_id(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  size_t cut_point(std::string_view text, size_t limit) const override;

 private:
  void encode_words(std::string_view text, size_t step, std::vector<TokenId>& out) const;
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  void index_words();

  TokenizerSpec spec_;
  AddedTokens added_;
  BpeMerges merges_;
  std::array<TokenId, 256> byte_ids_{};  // -1: no token for this byte
  std::vector<std::string> bytes_;       // of each token
  std::vector<bool> special_;
  std::unordered_map<std::string_view, TokenId> by_token_;  // as spelled in the file
  // Words that are one token: nearly all words of ordinary text, found without merging. Views of
  // bytes_.
  std::unordered_map<std::string_view, TokenId> words_;
};

}  // namespace taper
