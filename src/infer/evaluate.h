// The loss of a model on held-out text, with the percentiles that a mean alone would hide.
//
// Two ways of cutting text into sequences:
//   windows    consecutive windows of `context` ids of one stream; each id is predicted once,
//   except the
//              first of a window, which has nothing before it. A last window that is not full is
//              left out, so that all sequences are equally long.
//   documents  each document on its own: BOS first where the model has one, cut at `context` ids.
// A loss is fp32 log-sum-exp minus the target's logit, in nats; sums are in double.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "infer/session.h"
#include "io/token_shard.h"
#include "text/tokenizer.h"

namespace taper {

struct Evaluation {
  double loss = 0;        // mean over all predictions
  double perplexity = 0;  // exp(loss)
  int64_t tokens = 0;     // predictions
  int64_t sequences = 0;
  double p50 = 0, p95 = 0, p99 = 0, max = 0;  // of the sequences' mean losses
  double max_residual_norm = 0;               // largest L2 norm of a row entering the final norm
};

// Sequences of token ids. Evaluates each from position 0. Shows progress; throws Interrupted on
// Ctrl-C, NumericsError naming the sequence when a loss is not finite, ConfigError when there is
// nothing to score.
Evaluation evaluate(const Model& model, ThreadPool& pool,
                    const std::vector<std::vector<TokenId>>& sequences);

// Windows of a shard. FormatError when it was made by another tokenizer than `fingerprint` (0: not
// checked), for an id beyond the model's vocabulary, and when there is too little data for one
// window.
std::vector<std::vector<TokenId>> shard_windows(const TokenShard& shard, const ModelConfig& config,
                                                int64_t context, uint64_t fingerprint);

// Windows of a text: its documents, each with BOS before it and end-of-text after it where there
// are such tokens, joined to one stream.
std::vector<std::vector<TokenId>> text_windows(std::string_view text, const std::string& what,
                                               const ModelConfig& config,
                                               const Tokenizer& tokenizer, int64_t context);

// Documents of a text (separator <|endoftext|>, surrounding white space trimmed, empty ones
// dropped).
std::vector<std::vector<TokenId>> text_documents(std::string_view text, const std::string& what,
                                                 const ModelConfig& config,
                                                 const Tokenizer& tokenizer, int64_t context);
std::vector<std::string_view> split_documents(std::string_view text);

}  // namespace taper
