// Text to token ids and back.
//
// One class serves both kinds of model in a Hugging Face tokenizer.json that this project reads:
//   byte-level BPE with the GPT-2 split pattern (trained here, GPT-2, SmolLM2-like), and
//   SentencePiece-style BPE with byte fallback (imported from llama2.c): a dummy leading space,
//   spaces as U+2581, unknown characters as byte tokens <0x00>..<0xFF>.
// encode() never yields a special token for text that merely spells one, unless allowed.
// Thread-safe after construction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace taper {

using TokenId = int32_t;

// The token that ends a text in GPT-2's vocabulary and in those trained here.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

enum class SpecialTokens { kAsText, kAllow };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Ids of `text`, without BOS or EOS. Invalid UTF-8 is kept byte for byte.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      SpecialTokens specials = SpecialTokens::kAsText) const = 0;
  // The bytes that `id` adds to a text that is not empty; special tokens add nothing.
  virtual std::string token_bytes(TokenId id) const = 0;
  // The text of `ids`: their bytes joined, without the dummy leading space where the model has one.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  // Where a text longer than `limit` bytes may be cut so that the ids of the parts, joined, are the
  // ids of the whole (kAsText): at most `limit`, or text.size() when the model allows no such
  // place.
  virtual size_t cut_point(std::string_view text, [[maybe_unused]] size_t limit) const {
    return text.size();
  }

  virtual int64_t vocab_size() const = 0;
  virtual TokenId token_to_id(std::string_view token) const = 0;  // -1 when absent
  virtual bool is_special(TokenId id) const = 0;
  TokenId eos_id() const { return eos_id_; }  // -1 when the model has none
  TokenId bos_id() const { return bos_id_; }
  // xxHash64 of the canonical tokenizer.json: shards carry it.
  uint64_t fingerprint() const { return fingerprint_; }
  // The tokenizer.json this tokenizer was read from or would be written as.
  const std::string& json() const { return json_; }

 protected:
  friend std::unique_ptr<Tokenizer> make_tokenizer(struct TokenizerSpec spec,
                                                   const std::string& what,
                                                   const std::string& json);
  TokenId eos_id_ = -1, bos_id_ = -1;
  uint64_t fingerprint_ = 0;
  std::string json_;
};

// Reads a tokenizer.json. FormatError for a kind it cannot reproduce exactly, naming the part.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);
std::unique_ptr<Tokenizer> parse_tokenizer(const std::string& json, const std::string& what);

}  // namespace taper
