#include "infer/token_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "text/framing.h"

namespace taper {
namespace {

constexpr int64_t kDefaultWindow = 512;
constexpr int64_t kRandomIds = 256;

constexpr std::string_view kParagraph =
    "The mill stood where two streams met, and for eighty years its wheel had turned in rain and "
    "frost. When the miller grew old he asked his daughter, \"Will you keep it going?\" She "
    "counted the cracked boards, the 14 missing teeth of the great gear, and the swallows' nests "
    "under the roof; then she laughed. \"I will mend one thing each day,\" she said, \"and by the "
    "time the last is done, the first will be broken again.\" So it went. In spring the water rose "
    "and ground the corn of three villages; in August it sank to a thread, and she read by the "
    "open door. People came with sacks, with news, and sometimes only to hear the stones sing.";

// Cuts `ids` into windows until the sample is full.
void append_windows(std::span<const TokenId> ids, int64_t window, int64_t max_tokens,
                    std::vector<std::vector<TokenId>>& sequences, int64_t& total) {
  while (!ids.empty() && total < max_tokens) {
    const int64_t count = std::min({std::ssize(ids), window, max_tokens - total});
    const auto part = ids.first(static_cast<size_t>(count));
    sequences.emplace_back(part.begin(), part.end());
    total += count;
    ids = ids.subspan(part.size());
  }
}

int64_t limit_of(const SampleSize& size) {
  return size.max_tokens == 0 ? std::numeric_limits<int64_t>::max() : size.max_tokens;
}

}  // namespace

int64_t TokenSample::num_tokens() const {
  int64_t total = 0;
  for (const auto& ids : sequences) total += std::ssize(ids);
  return total;
}

int64_t SampleSize::window_of(const ModelConfig& config) const {
  return window == 0 ? std::min(kDefaultWindow, config.context) : window;
}

void SampleSize::validate(const ModelConfig& config) const {
  if (window < 0 || window > config.context) {
    throw ConfigError(fmt::format("a context of {} tokens does not suit this model", window),
                      fmt::format("choose one from 1 to {}", config.context));
  }
  if (max_tokens < 0) throw ConfigError(fmt::format("{} tokens are not a sample", max_tokens));
}

TokenSample sample_shard(const TokenShard& shard, const ModelConfig& config, uint64_t fingerprint,
                         const SampleSize& size) {
  size.validate(config);
  const std::string what = shard.path().string();
  if (fingerprint != 0 && shard.tokenizer_fingerprint() != fingerprint) {
    throw FormatError(what + ": made with another tokenizer than the model's",
                      "prepare the data again with the model's tokenizer.json");
  }
  if (shard.size() == 0) throw FormatError(what + ": holds no tokens");
  const int64_t count = std::min(shard.size(), limit_of(size));
  std::vector<TokenId> ids(static_cast<size_t>(count));
  shard.copy(0, std::span<TokenId>(ids));
  check_ids(ids, config.vocab_size, what);
  TokenSample sample{{}, "the shard " + shard.path().filename().string()};
  int64_t total = 0;
  append_windows(ids, size.window_of(config), count, sample.sequences, total);
  return sample;
}

TokenSample sample_text(std::string_view text, const std::string& what, const ModelConfig& config,
                        const Tokenizer& tokenizer, const SampleSize& size) {
  size.validate(config);
  TokenSample sample{{}, "the text " + what};
  int64_t total = 0;
  for_each_document(text, kDocumentSeparator, [&](std::string_view document) {
    if (total >= limit_of(size)) return;
    const std::vector<TokenId> ids = document_ids(tokenizer, document);
    check_ids(ids, config.vocab_size, what);
    append_windows(ids, size.window_of(config), limit_of(size), sample.sequences, total);
  });
  if (total == 0) throw FormatError(what + ": holds no text");
  return sample;
}

TokenSample sample_built_in_text(const ModelConfig& config, const Tokenizer& tokenizer,
                                 const SampleSize& size) {
  TokenSample sample = sample_text(kParagraph, "built-in paragraph", config, tokenizer, size);
  sample.origin = "a built-in paragraph of English";
  return sample;
}

TokenSample sample_random_ids(const ModelConfig& config, const SampleSize& size) {
  size.validate(config);
  const int64_t count = size.max_tokens == 0 ? kRandomIds : std::min(kRandomIds, size.max_tokens);
  Random random(/*seed=*/20260210);
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>(random.below(static_cast<uint64_t>(config.vocab_size))));
  TokenSample sample{{}, "random token ids (the model has no tokenizer)"};
  int64_t total = 0;
  append_windows(ids, size.window_of(config), count, sample.sequences, total);
  return sample;
}

}  // namespace taper
