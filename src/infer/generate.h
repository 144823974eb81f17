// Text from a prompt: prefill, then sample and decode until something ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/sampler.h"
#include "infer/session.h"
#include "text/tokenizer.h"

namespace taper {

enum class FinishReason {
  kEos,          // the text ended: ends_document, or the end-of-text of the model's config.json
  kStop,         // a stop string appeared
  kLength,       // max_new_tokens
  kContext,      // the session is full
  kInterrupted,  // Ctrl-C
};
std::string_view to_string(FinishReason reason);  // "eos", "stop", "length", ...

struct Prompt {
  std::vector<TokenId> ids;
  bool continues = false;  // there is text for the first new token to continue
};

// Ids of a prompt: what begins a document (text/framing.h), then the text. With
// SpecialTokens::kAllow it may spell special tokens; a BOS it begins with is not doubled, with a
// warning. An empty prompt without BOS starts after an end-of-text; ConfigError when the tokenizer
// has none either. FormatError for an id that the model does not have.
Prompt make_prompt(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view text,
                   SpecialTokens specials = SpecialTokens::kAsText);

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  SamplerOptions sampler = {};
  std::vector<std::string> stop = {};
};

struct Generation {
  std::string text;          // without the prompt and without a stop string; always valid UTF-8
  std::vector<TokenId> ids;  // new ones, without the end-of-text, with those of a stop string
  FinishReason reason = FinishReason::kLength;
  double prefill_seconds = 0;  // until the first token was chosen
  double decode_seconds = 0;   // of the others

  double tokens_per_s() const;  // of decoding; 0 when there was none
};

// Capacity of a session for a prompt and what follows: at most the model's context. ConfigError
// when the prompt alone is longer.
int64_t needed_capacity(const ModelConfig& config, int64_t prompt_tokens, int64_t max_new_tokens);

// Appends the prompt to `session` and continues it. `on_text` receives the text piece by piece:
// whole characters, never a part of a stop string.
Generation generate(const Model& model, const Tokenizer& tokenizer, Session& session,
                    const Prompt& prompt, const GenerateOptions& options,
                    const std::function<void(std::string_view)>& on_text = {});

}  // namespace taper
