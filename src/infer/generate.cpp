#include "infer/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/timing.h"
#include "infer/stop_filter.h"
#include "text/framing.h"
#include "text/utf8_stream.h"

namespace taper {
namespace {

// New tokens on their way to text.
class TextSink {
 public:
  TextSink(const Tokenizer& tokenizer, bool continues, const GenerateOptions& options,
           const std::function<void(std::string_view)>& on_text)
      : tokenizer_(tokenizer), first_(!continues), filter_(options.stop), on_text_(on_text) {}

  void push(TokenId id) {
    // What begins a text has no leading space of its own.
    const std::string bytes =
        first_ ? tokenizer_.decode(std::span(&id, 1)) : tokenizer_.token_bytes(id);
    first_ = false;
    emit(filter_.push(utf8_.push(bytes)));
  }
  void finish() {
    emit(filter_.push(utf8_.flush()));
    emit(filter_.flush());
  }
  bool stopped() const { return filter_.stopped(); }
  std::string take() { return std::move(text_); }

 private:
  void emit(const std::string& text) {
    if (text.empty()) return;
    text_ += text;
    if (on_text_) on_text_(text);
  }

  const Tokenizer& tokenizer_;
  bool first_;
  Utf8Stream utf8_;
  StopFilter filter_;
  const std::function<void(std::string_view)>& on_text_;
  std::string text_;
};

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kInterrupted:
      return "interrupted";
  }
  TAPER_CHECK(false);
}

double Generation::tokens_per_s() const {
  const auto decoded = static_cast<double>(std::ssize(ids) - 1);
  return decoded > 0 && decode_seconds > 0 ? decoded / decode_seconds : 0;
}

Prompt make_prompt(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view text,
                   SpecialTokens specials) {
  const Framing framing = framing_of(tokenizer);
  Prompt prompt{tokenizer.encode(text, specials), !text.empty()};
  if (framing.before >= 0 && !prompt.ids.empty() && prompt.ids.front() == framing.before)
    log_warning("the prompt spells the beginning-of-text token itself: no second one is added");
  else if (framing.before >= 0)
    prompt.ids.insert(prompt.ids.begin(), framing.before);
  if (prompt.ids.empty() && framing.after >= 0) prompt.ids.push_back(framing.after);
  if (prompt.ids.empty()) {
    throw ConfigError("the prompt is empty, and the tokenizer has no token that begins a text",
                      "give it a few words");
  }
  check_ids(prompt.ids, config.vocab_size, "the prompt");
  return prompt;
}

int64_t needed_capacity(const ModelConfig& config, int64_t prompt_tokens, int64_t max_new_tokens) {
  if (max_new_tokens < 0)
    throw ConfigError(fmt::format("{} new tokens, expected 0 or more", max_new_tokens));
  if (prompt_tokens > config.context) {
    throw ConfigError(
        fmt::format("the prompt of {} tokens is longer than the model's context of {}",
                    prompt_tokens, config.context),
        "shorten the prompt");
  }
  return std::min(config.context - prompt_tokens, max_new_tokens) + prompt_tokens;
}

Generation generate(const Model& model, const Tokenizer& tokenizer, Session& session,
                    const Prompt& prompt, const GenerateOptions& options,
                    const std::function<void(std::string_view)>& on_text) {
  const ModelConfig& config = model.config();
  // The head may have rows of padding that the tokenizer has no text for.
  Sampler sampler(options.sampler, std::min(config.vocab_size, tokenizer.vocab_size()));
  TextSink sink(tokenizer, prompt.continues, options, on_text);
  Generation result;
  if (options.max_new_tokens == 0) return result;

  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = session.forward(prompt.ids, LogitRows::kLast);
  while (true) {
    const TokenId id = sampler.sample(logits);
    if (result.ids.empty()) {
      result.prefill_seconds = seconds_since(start);
      start = std::chrono::steady_clock::now();
    }
    if (id == config.eos_id || ends_document(tokenizer, id)) {
      result.reason = FinishReason::kEos;
      break;
    }
    result.ids.push_back(id);
    result.decode_seconds = seconds_since(start);
    sink.push(id);
    if (sink.stopped()) {
      result.reason = FinishReason::kStop;
      break;
    }
    if (std::ssize(result.ids) == options.max_new_tokens) break;
    if (session.position() == session.capacity()) {
      result.reason = FinishReason::kContext;
      break;
    }
    if (interrupted()) {
      result.reason = FinishReason::kInterrupted;
      break;
    }
    logits = session.forward(std::span(&id, 1), LogitRows::kLast);
  }
  sink.finish();
  result.text = sink.take();
  return result;
}

}  // namespace taper
