#include "text/sentencepiece_tokenizer.h"

#include "core/error.h"
#include "text/unicode.h"

namespace taper {
namespace {

std::string mark_to_space(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size();) {
    if (token.substr(i).starts_with(kSpaceMark)) {
      text.push_back(' ');
      i += kSpaceMark.size();
    } else {
      text.push_back(token[i++]);
    }
  }
  return text;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(TokenizerSpec spec)
    : spec_(std::move(spec)), added_(spec_.added), merges_(spec_.merges) {
  special_.resize(spec_.vocab.size());
  for (size_t id = 0; id < spec_.vocab.size(); ++id) {
    const std::string& token = spec_.vocab[id];
    const int byte = byte_of_token(token);
    bytes_.push_back(byte < 0 ? mark_to_space(token) : std::string(1, static_cast<char>(byte)));
    if (byte >= 0) byte_ids_[byte] = static_cast<TokenId>(id);
    by_token_.emplace(token, static_cast<TokenId>(id));
  }
  for (const AddedToken& token : spec_.added) {
    bytes_[token.id] = token.content;
    special_[token.id] = token.special;
  }
  space_ = token_to_id(kSpaceMark);
  for (const BpeMerge& merge : spec_.merges)
    if (spec_.vocab[merge.right].starts_with(kSpaceMark)) words_apart_ = false;
  bos_id_ = spec_.bos;
  eos_id_ = spec_.eos;
}

std::vector<TokenId> SentencePieceTokenizer::encode(std::string_view text,
                                                    SpecialTokens specials) const {
  std::vector<TokenId> ids;
  added_.split(
      text, specials, [&](std::string_view part) { encode_part(part, ids); },
      [&](TokenId id) { ids.push_back(id); });
  return ids;
}

void SentencePieceTokenizer::encode_part(std::string_view text, std::vector<TokenId>& out) const {
  size_t word = out.size();
  const auto put_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes) out.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  };
  const auto put_space = [&] {
    if (words_apart_) {
      merges_.merge_tail(out, word);
      word = out.size();
    }
    if (space_ < 0)
      put_bytes(kSpaceMark);
    else
      out.push_back(space_);
  };
  if (spec_.dummy_prefix) put_space();
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(utf8_sequence_length(text.substr(i, 4)), 1);
    const std::string_view character = text.substr(i, length);
    i += length;
    if (character == " " || character == kSpaceMark)
      put_space();
    else if (const auto found = by_token_.find(character);
             found != by_token_.end() && !special_[found->second])
      out.push_back(found->second);
    else
      put_bytes(character);
  }
  merges_.merge_tail(out, word);
}

std::string SentencePieceTokenizer::token_bytes(TokenId id) const {
  TAPER_CHECK(id >= 0 && id < vocab_size());
  return special_[id] ? std::string() : bytes_[id];
}

std::string SentencePieceTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += token_bytes(id);
  if (spec_.dummy_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

TokenId SentencePieceTokenizer::token_to_id(std::string_view token) const {
  const auto found = by_token_.find(token);
  return found == by_token_.end() ? -1 : found->second;
}

bool SentencePieceTokenizer::is_special(TokenId id) const {
  TAPER_CHECK(id >= 0 && id < vocab_size());
  return special_[id];
}

}  // namespace taper
