// The loss of a model on held-out text, with the percentiles that a mean alone would hide.
//
// Two ways of cutting text into sequences:
//   windows    of a stream of ids, as in training: window w feeds ids [w C, (w + 1) C) and predicts
//              the id after each, so that every id but the stream's first is predicted once. What
//              is left at the end is not scored: all sequences are equally long.
//   documents  each on its own, cut at C ids; all but the first are predicted.
// What begins and ends a document is the tokenizer's affair (text/framing.h).
// C is the context. A loss is log-sum-exp minus the target's logit, in nats; sums are in double.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "infer/session.h"
#include "io/token_shard.h"
#include "text/tokenizer.h"

namespace taper {

// Ids of a sequence: all but the last are fed, all but the first are predicted.
using Sequences = std::vector<std::vector<TokenId>>;

struct Evaluation {
  double loss = 0;        // mean over all predictions
  double perplexity = 0;  // exp(loss)
  int64_t tokens = 0;     // predictions
  int64_t sequences = 0;
  double p50 = 0, p95 = 0, p99 = 0, max = 0;  // of the sequences' mean losses, nearest rank
  double max_residual_norm = 0;               // largest L2 norm of a row entering the final norm
};

// Runs each sequence from position 0. Shows progress. Throws Interrupted on Ctrl-C, NumericsError
// naming the sequence when a loss is not finite, FormatError when there is nothing to predict.
Evaluation evaluate(const Model& model, ThreadPool& pool, const Sequences& sequences);

// Windows of a shard. FormatError when another tokenizer than `tokenizer` made it (null: not
// checked), when its ids may lie beyond the model's vocabulary, and when there is too little data
// for one window.
Sequences shard_windows(const TokenShard& shard, const ModelConfig& config,
                        const Tokenizer* tokenizer, int64_t context);

// Windows of a text: its documents joined to one stream as `taper data prepare` does. FormatError,
// starting with `what`, when the tokenizer makes an id that the model does not have, and when there
// is too little text for one window.
Sequences text_windows(std::string_view text, const std::string& what, const ModelConfig& config,
                       const Tokenizer& tokenizer, int64_t context);

// The documents of a text, each on its own. FormatError as for text_windows, and when no document
// has a token to predict.
Sequences text_documents(std::string_view text, const std::string& what, const ModelConfig& config,
                         const Tokenizer& tokenizer, int64_t context);

}  // namespace taper
