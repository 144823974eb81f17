#include "text/byte_level_tokenizer.h"

#include "core/error.h"
#include "core/log.h"
#include "text/byte_alphabet.h"
#include "text/word_split.h"

namespace taper {

ByteLevelTokenizer::ByteLevelTokenizer(TokenizerSpec spec)
    : spec_(std::move(spec)), added_(spec_.added), merges_(spec_.merges) {
  special_.resize(spec_.vocab.size());
  bytes_.reserve(spec_.vocab.size());
  for (const std::string& token : spec_.vocab)
    bytes_.push_back(chars_to_bytes(token).value_or(token));
  for (const AddedToken& token : spec_.added) {
    bytes_[token.id] = token.content;
    special_[token.id] = token.special;
  }
  for (size_t id = 0; id < spec_.vocab.size(); ++id)
    by_token_.emplace(spec_.vocab[id], static_cast<TokenId>(id));
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = by_token_.find(bytes_to_chars(std::string(1, static_cast<char>(byte))));
    byte_ids_[byte] = found == by_token_.end() ? -1 : found->second;
  }
  index_words();
  bos_id_ = spec_.bos;
  eos_id_ = spec_.eos;
}

void ByteLevelTokenizer::index_words() {
  std::vector<bool> added(bytes_.size());
  for (const AddedToken& token : spec_.added) added[token.id] = true;
  std::vector<TokenId> symbols;
  for (size_t id = 0; id < bytes_.size(); ++id) {
    if (added[id]) continue;
    if (!spec_.ignore_merges) {
      symbols.clear();
      for (const char byte : bytes_[id])
        symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      merges_.merge_tail(symbols, 0);
      if (symbols.size() != 1 || symbols[0] != static_cast<TokenId>(id)) continue;
    }
    words_.emplace(bytes_[id], static_cast<TokenId>(id));
  }
}

std::vector<TokenId> ByteLevelTokenizer::encode(std::string_view text,
                                                SpecialTokens specials) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3);
  added_.split(
      text, specials, [&](std::string_view part) { encode_words(part, 0, ids); },
      [&](TokenId id) { ids.push_back(id); });
  return ids;
}

void ByteLevelTokenizer::encode_words(std::string_view text, size_t step,
                                      std::vector<TokenId>& out) const {
  if (step == spec_.steps.size()) return encode_word(text, out);
  const auto next = [&](std::string_view word) { encode_words(word, step + 1, out); };
  switch (spec_.steps[step]) {
    case SplitStep::kGpt2:
      if (step + 1 == spec_.steps.size())
        return split_gpt2(text, [&](std::string_view word) { encode_word(word, out); });
      return split_gpt2(text, next);
    case SplitStep::kDigits:
      return split_digits(text, true, next);
    case SplitStep::kDigitRuns:
      return split_digits(text, false, next);
    case SplitStep::kPrefixSpace:
      if (text.starts_with(' ')) return next(text);
      return next(" " + std::string(text));
  }
}

void ByteLevelTokenizer::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  if (const auto found = words_.find(word); found != words_.end()) {
    out.push_back(found->second);
    return;
  }
  const size_t begin = out.size();
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    const TokenId id = byte_ids_[byte];
    if (id < 0)
      log_warning(fmt::format(
          "byte 0x{:02X} of the text is left out: the vocabulary has no token for it", byte));
    else
      out.push_back(id);
  }
  merges_.merge_tail(out, begin);
}

std::string ByteLevelTokenizer::token_bytes(TokenId id) const {
  TAPER_CHECK(id >= 0 && id < vocab_size());
  return special_[id] ? std::string() : bytes_[id];
}

std::string ByteLevelTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += token_bytes(id);
  return text;
}

TokenId ByteLevelTokenizer::token_to_id(std::string_view token) const {
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? -1 : found->second;
}

bool ByteLevelTokenizer::is_special(TokenId id) const {
  TAPER_CHECK(id >= 0 && id < vocab_size());
  return special_[id];
}

size_t ByteLevelTokenizer::cut_point(std::string_view text, size_t limit) const {
  bool splits = false;
  for (const SplitStep step : spec_.steps) splits = splits || step == SplitStep::kGpt2;
  if (!splits || added_.contain_space()) return text.size();
  return gpt2_cut_point(text, limit);
}

}  // namespace taper
