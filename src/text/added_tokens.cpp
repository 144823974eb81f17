#include "text/added_tokens.h"

#include <algorithm>

namespace taper {

void AddedTokens::Matcher::add(const AddedToken& token) { tokens_.push_back(token); }

void AddedTokens::Matcher::finish() {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    const char first = tokens_[i].content[0];
    auto& same = by_first_[static_cast<unsigned char>(first)];
    if (same.empty()) first_bytes_.push_back(first);
    same.push_back(i);
  }
}

const AddedToken* AddedTokens::Matcher::find(std::string_view text, size_t from,
                                             size_t* position) const {
  for (size_t i = text.find_first_of(first_bytes_, from); i != std::string_view::npos;
       i = text.find_first_of(first_bytes_, i + 1)) {
    for (const uint32_t index : by_first_[static_cast<unsigned char>(text[i])]) {
      if (text.substr(i).starts_with(tokens_[index].content)) {
        *position = i;
        return &tokens_[index];
      }
    }
  }
  return nullptr;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    (token.normalized ? normalized_ : raw_).add(token);
    if (token.special) continue;
    any_plain_ = true;
    contain_space_ = contain_space_ || token.content.find_first_of(" \n") != std::string::npos;
  }
  raw_.finish();
  normalized_.finish();
}

void AddedTokens::split_with(const Matcher& matcher, std::string_view text, SpecialTokens specials,
                             const std::function<void(std::string_view)>& on_text,
                             const std::function<void(TokenId)>& on_token) {
  size_t begin = 0, from = 0, position = 0;
  while (const AddedToken* token = matcher.find(text, from, &position)) {
    from = position + token->content.size();
    if (token->special && specials == SpecialTokens::kAsText) continue;
    if (position > begin) on_text(text.substr(begin, position - begin));
    on_token(token->id);
    begin = from;
  }
  if (begin < text.size()) on_text(text.substr(begin));
}

void AddedTokens::split(std::string_view text, SpecialTokens specials,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<void(TokenId)>& on_token) const {
  if (specials == SpecialTokens::kAsText && !any_plain_) {
    if (!text.empty()) on_text(text);
    return;
  }
  const auto normalized_pass = [&](std::string_view part) {
    if (normalized_.empty())
      on_text(part);
    else
      split_with(normalized_, part, specials, on_text, on_token);
  };
  split_with(raw_, text, specials, normalized_pass, on_token);
}

}  // namespace taper
