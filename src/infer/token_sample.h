// A limited number of tokens to run a model on, for calibration and verification: real ones where
// there are any. Each says in words where its tokens come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/token_shard.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"

namespace taper {

struct TokenSample {
  std::vector<std::vector<TokenId>> sequences;  // none empty, each at most the window long
  std::string origin;                           // "the text valid.txt"

  int64_t num_tokens() const;
};

struct SampleSize {
  int64_t window = 0;      // tokens of a sequence; 0: the model's context, at most 512
  int64_t max_tokens = 0;  // of the whole sample; 0: all

  // ConfigError when the window does not suit the model, or a number is negative.
  void validate(const ModelConfig& config) const;
  int64_t window_of(const ModelConfig& config) const;
};

// The first tokens of a shard. FormatError when it is empty, or was made by another tokenizer than
// `fingerprint` (0: not checked), or has ids beyond the model's vocabulary.
TokenSample sample_shard(const TokenShard& shard, const ModelConfig& config, uint64_t fingerprint,
                         const SampleSize& size);

// The first documents of a text, each on its own (document_ids), cut into windows. FormatError when
// there is no text, or for an id beyond the model's vocabulary.
TokenSample sample_text(std::string_view text, const std::string& what, const ModelConfig& config,
                        const Tokenizer& tokenizer, const SampleSize& size);

// A paragraph of English that this program carries with it.
TokenSample sample_built_in_text(const ModelConfig& config, const Tokenizer& tokenizer,
                                 const SampleSize& size);

// Ids drawn uniformly from the vocabulary, always the same, for a model without a tokenizer.
TokenSample sample_random_ids(const ModelConfig& config, const SampleSize& size);

}  // namespace taper
