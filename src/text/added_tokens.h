// Finds added tokens (special ones among them) in text, as Hugging Face `tokenizers` does: the
// leftmost, the longest among those that begin at one place, those not subject to normalization
// first. Immutable after construction.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "text/tokenizer_spec.h"

namespace taper {

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  // Calls on_text(part) and on_token(id) in order. With kAsText special tokens stay text.
  void split(std::string_view text, SpecialTokens specials,
             const std::function<void(std::string_view)>& on_text,
             const std::function<void(TokenId)>& on_token) const;

  bool contain_space() const { return contain_space_; }  // among the tokens that are not special

 private:
  class Matcher {
   public:
    void add(const AddedToken& token);
    void finish();
    bool empty() const { return tokens_.empty(); }
    // The first match at or after `from`; null when there is none.
    const AddedToken* find(std::string_view text, size_t from, size_t* position) const;

   private:
    std::vector<AddedToken> tokens_;                     // longest first
    std::array<std::vector<uint32_t>, 256> by_first_{};  // indices into tokens_
    std::string first_bytes_;
  };
  static void split_with(const Matcher& matcher, std::string_view text, SpecialTokens specials,
                         const std::function<void(std::string_view)>& on_text,
                         const std::function<void(TokenId)>& on_token);

  Matcher raw_, normalized_;
  bool any_plain_ = false;  // tokens that are not special
  bool contain_space_ = false;
};

}  // namespace taper
