// Text from a prompt: prefill, then sample and decode until something ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/sampler.h"
#include "infer/session.h"
#include "text/tokenizer.h"

namespace taper {

enum class FinishReason {
  kEos,          // the model ended the text (end-of-text, or a new beginning-of-text)
  kStop,         // a stop string appeared
  kLength,       // max_new_tokens
  kContext,      // the session's capacity
  kInterrupted,  // Ctrl-C
};
std::string_view to_string(FinishReason reason);  // "eos", "stop", ...

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  SamplerOptions sampler;
  std::vector<std::string> stop;  // not empty strings; the text ends before the first one found
};

struct Generation {
  std::string text;          // what was generated, without the prompt and without a stop string
  std::vector<TokenId> ids;  // generated ids; the one that ended the text is not among them
  int64_t prompt_tokens = 0;
  FinishReason reason = FinishReason::kLength;
  double prefill_seconds = 0;
  double decode_seconds = 0;  // of the new tokens after the first

  double tokens_per_s() const;  // of decoding; 0 when nothing was decoded
};

// Prompt ids: BOS first where the model has one (not doubled when the prompt text already spells
// it, with a warning), then the text, in which special tokens count as such. FormatError when there
// would be none.
std::vector<TokenId> prompt_ids(const ModelConfig& config, const Tokenizer& tokenizer,
                                std::string_view prompt);

// Runs `session` from position 0. `on_text` receives the text piece by piece: whole UTF-8
// characters, never a part of a stop string. ConfigError when the prompt does not fit the session.
Generation generate(const Model& model, const Tokenizer& tokenizer, Session& session,
                    std::string_view prompt, const GenerateOptions& options,
                    const std::function<void(std::string_view)>& on_text = {});

}  // namespace taper
