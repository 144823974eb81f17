// A model that says what a test wants: token i is followed by token script[i], by a head of zeros
// and ones over one-hot embeddings; attention and feed-forward add nothing. Rows of the head from
// `padding_from` on always have the largest logit. And a tokenizer of given pieces.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/tensor_set.h"
#include "text/tokenizer.h"

namespace taper::test {

inline void write_scripted_model(const std::filesystem::path& folder,
                                 const std::vector<int32_t>& script, int64_t padding,
                                 int64_t bos_id, int64_t eos_id, int64_t context) {
  ModelConfig config;
  config.vocab_size = std::ssize(script) + padding;
  config.width = config.vocab_size;
  config.num_layers = config.num_heads = config.num_kv_heads = 1;
  config.head_width = 2;
  config.ffn_width = 3;
  config.context = context;
  config.tied_head = false;
  config.bos_id = bos_id;
  config.eos_id = eos_id;
  TensorSet tensors;
  const auto width = static_cast<size_t>(config.width);
  for (const TensorSpec& spec : expected_tensors(config, {})) {
    const std::span<float> values = tensors.add(spec.name, spec.shape);
    for (size_t i = 0; i < width && spec.name == "model.embed_tokens.weight"; ++i)
      values[i * width + i] = 1;
    for (size_t i = 0; i < width && spec.name == "lm_head.weight"; ++i) {
      if (i < script.size()) values[static_cast<size_t>(script[i]) * width + i] = 1;
      for (size_t row = script.size(); row < width; ++row) values[row * width + i] = 9;
    }
    if (spec.shape.size() == 1) std::fill(values.begin(), values.end(), 1.0f);
  }
  std::filesystem::create_directories(folder);
  write_checkpoint_files(folder, config, {}, tensors.views(), "");
}

// Encodes by the longest piece that fits. Pieces in angle brackets are special. A first piece loses
// its leading space when decoded, as where a dummy space is put before a text.
class PieceTokenizer : public Tokenizer {
 public:
  PieceTokenizer(std::vector<std::string> pieces, TokenId bos_id, TokenId eos_id)
      : pieces_(std::move(pieces)) {
    bos_id_ = bos_id;
    eos_id_ = eos_id;
    fingerprint_ = 77;
  }

  std::vector<TokenId> encode(std::string_view text, SpecialTokens specials) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      TokenId best = -1;
      size_t size = 0;
      for (TokenId id = 0; id < vocab_size(); ++id) {
        const std::string& piece = pieces_[static_cast<size_t>(id)];
        if (is_special(id) && specials == SpecialTokens::kAsText) continue;
        if (piece.size() > size && text.starts_with(piece)) {
          best = id;
          size = piece.size();
        }
      }
      if (best >= 0) ids.push_back(best);
      text.remove_prefix(std::max<size_t>(size, 1));
    }
    return ids;
  }
  std::string token_bytes(TokenId id) const override {
    return is_special(id) ? "" : pieces_[static_cast<size_t>(id)];
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) text += token_bytes(id);
    if (text.starts_with(' ')) text.erase(0, 1);
    return text;
  }
  int64_t vocab_size() const override { return std::ssize(pieces_); }
  TokenId token_to_id(std::string_view token) const override {
    for (TokenId id = 0; id < vocab_size(); ++id)
      if (pieces_[static_cast<size_t>(id)] == token) return id;
    return -1;
  }
  bool is_special(TokenId id) const override {
    return pieces_[static_cast<size_t>(id)].starts_with('<');
  }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace taper::test
