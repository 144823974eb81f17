// SentencePiece-style BPE with byte fallback: spaces become U+2581, with one more before the text;
// characters that have no token become the byte tokens of their bytes, invalid bytes likewise.
// Decoding drops one leading space, the dummy one.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_spec.h"

namespace taper {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // `spec` has passed check_tokenizer_spec.
  explicit SentencePieceTokenizer(TokenizerSpec spec);

  std::vector<TokenId> encode(std::string_view text, SpecialTokens specials) const override;
  std::string token_bytes(TokenId id) const override;
  std::string decode(std::span<const TokenId> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(bytes_.size()); }
  TokenId token_to_id(std::string_view token) const override;
  bool is_special(TokenId id) const override;

 private:
  void encode_part(std::string_view text, std::vector<TokenId>& out) const;

  TokenizerSpec spec_;
  AddedTokens added_;
  BpeMerges merges_;
  std::vector<std::string> bytes_;
  std::vector<bool> special_;
  std::unordered_map<std::string_view, TokenId> by_token_;
  std::array<TokenId, 256> byte_ids_{};
  TokenId space_ = -1;
  bool words_apart_ = true;  // no merge reaches over the start of a word, so words merge one by one
};

}  // namespace taper
