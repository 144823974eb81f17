#include "infer/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "kernels/cross_entropy.h"
#include "text/framing.h"

namespace taper {
namespace {

// Positions a call: their logits fit a cache of a few MB for usual vocabularies.
constexpr size_t kChunk = 128;

// The smallest value that at least `share` of the sorted values do not exceed.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<int64_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[static_cast<size_t>(std::max<int64_t>(rank, 1) - 1)];
}

// The sum of the losses of predicting `targets` from rows of logits, which are overwritten.
double loss_sum(ThreadPool& pool, std::span<float> logits, std::span<const TokenId> targets,
                int64_t vocab) {
  const std::vector<int64_t> wide(targets.begin(), targets.end());
  std::vector<double> losses(wide.size()), square_norms(wide.size());
  const CrossEntropyArgs<float> args{.vocab = vocab,
                                     .targets = wide.data(),
                                     .logits = logits.data(),
                                     .gradient = nullptr,
                                     .gradient_scale = 0,
                                     .losses = losses.data(),
                                     .square_norms = square_norms.data()};
  pool.run(std::ssize(targets), 8, [&](Range rows) { cross_entropy_rows(args, rows); });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

double sequence_loss(Session& session, ThreadPool& pool, std::span<const TokenId> ids,
                     int64_t vocab) {
  session.rewind();
  double sum = 0;
  const auto inputs = ids.first(ids.size() - 1);
  for (size_t done = 0; done < inputs.size(); done += kChunk) {
    const auto chunk = inputs.subspan(done, std::min(kChunk, inputs.size() - done));
    const auto logits = session.forward(chunk, LogitRows::kAll);
    sum += loss_sum(pool, logits, ids.subspan(done + 1, chunk.size()), vocab);
  }
  return sum;
}

double largest_row_norm(const float* rows, int64_t count, int64_t width) {
  double largest = 0;
  for (int64_t r = 0; r < count; ++r) {
    double square = 0;
    for (const float* x = rows + r * width; x != rows + (r + 1) * width; ++x)
      square += static_cast<double>(*x) * static_cast<double>(*x);
    largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

void check_context(int64_t context, const ModelConfig& config) {
  if (context >= 2 && context <= config.context) return;
  throw ConfigError(fmt::format("a context of {} tokens does not suit this model", context),
                    fmt::format("choose one from 2 to {}", config.context));
}

FormatError too_little(const std::string& what, int64_t count, int64_t context) {
  return FormatError(fmt::format("{}: {} tokens are too little for one window of {} and the token "
                                 "after it",
                                 what, count, context),
                     "choose a smaller context or more text");
}

template <typename Copy>
Sequences windows(int64_t count, int64_t context, const std::string& what, const Copy& copy) {
  if (count < context + 1) throw too_little(what, count, context);
  Sequences result(static_cast<size_t>((count - 1) / context));
  for (size_t w = 0; w < result.size(); ++w) {
    result[w].resize(static_cast<size_t>(context + 1));
    copy(static_cast<int64_t>(w) * context, std::span<TokenId>(result[w]));
  }
  return result;
}

}  // namespace

Evaluation evaluate(const Model& model, ThreadPool& pool, const Sequences& sequences) {
  const ModelConfig& config = model.config();
  size_t longest = 0;
  Evaluation result;
  for (const auto& ids : sequences) {
    longest = std::max(longest, ids.size());
    result.tokens += std::max<int64_t>(std::ssize(ids) - 1, 0);
  }
  if (result.tokens == 0) throw FormatError("the text has no token to predict");
  Session session(model, pool, static_cast<int64_t>(longest) - 1);
  session.set_norm_observer([&](const NormSite& site, const float* h, int64_t rows) {
    if (!site.is_final()) return;
    const double norm = largest_row_norm(h, rows, config.width);
    result.max_residual_norm = std::max(result.max_residual_norm, norm);
  });
  Progress progress("evaluating", result.tokens, "tokens");
  std::vector<double> means;
  double sum = 0;
  int64_t done = 0;
  for (const auto& ids : sequences) {
    if (ids.size() < 2) continue;
    throw_if_interrupted();
    const double loss = sequence_loss(session, pool, ids, config.vocab_size);
    const auto predictions = static_cast<double>(ids.size() - 1);
    if (!std::isfinite(loss)) {
      throw NumericsError(fmt::format("the loss of sequence {} ({} tokens) is {}",
                                      &ids - sequences.data() + 1, ids.size(), loss),
                          "the model's weights are damaged, or its residual stream overflows");
    }
    sum += loss;
    means.push_back(loss / predictions);
    done += std::ssize(ids) - 1;
    progress.update(done, fmt::format("loss {:.4f}", sum / static_cast<double>(done)));
  }
  std::sort(means.begin(), means.end());
  result.loss = sum / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  result.sequences = std::ssize(means);
  result.p50 = percentile(means, 0.50);
  result.p95 = percentile(means, 0.95);
  result.p99 = percentile(means, 0.99);
  result.max = means.back();
  return result;
}

Sequences shard_windows(const TokenShard& shard, const ModelConfig& config,
                        const Tokenizer* tokenizer, int64_t context) {
  const std::string what = shard.path().string();
  check_context(context, config);
  if (tokenizer != nullptr && shard.tokenizer_fingerprint() != tokenizer->fingerprint()) {
    throw FormatError(fmt::format("{}: made by the tokenizer {:016x}, the model's is {:016x}", what,
                                  shard.tokenizer_fingerprint(), tokenizer->fingerprint()),
                      "prepare the text again with the model's own tokenizer.json");
  }
  if (shard.vocab_size() > config.vocab_size) {
    throw FormatError(fmt::format("{}: its vocabulary of {} is beyond the model's {}", what,
                                  shard.vocab_size(), config.vocab_size),
                      "prepare the text again with the model's own tokenizer.json");
  }
  return windows(shard.size(), context, what,
                 [&](int64_t begin, std::span<TokenId> out) { shard.copy(begin, out); });
}

Sequences text_windows(std::string_view text, const std::string& what, const ModelConfig& config,
                       const Tokenizer& tokenizer, int64_t context) {
  check_context(context, config);
  std::vector<TokenId> stream;
  for_each_document(
      text, kDocumentSeparator,
      [&](std::string_view document) {
        append_document(
            tokenizer, document,
            [&](std::span<const TokenId> ids) {
              check_ids(ids, config.vocab_size, what);
              stream.insert(stream.end(), ids.begin(), ids.end());
            });
      });
  return windows(std::ssize(stream), context, what, [&](int64_t begin, std::span<TokenId> out) {
    std::copy_n(stream.begin() + begin, out.size(), out.begin());
  });
}

Sequences text_documents(std::string_view text, const std::string& what, const ModelConfig& config,
                         const Tokenizer& tokenizer, int64_t context) {
  check_context(context, config);
  Sequences result;
  for_each_document(text, kDocumentSeparator, [&](std::string_view document) {
    std::vector<TokenId> ids = document_ids(tokenizer, document);
    if (std::ssize(ids) > context) ids.resize(static_cast<size_t>(context));
    check_ids(ids, config.vocab_size, what);
    if (ids.size() >= 2) result.push_back(std::move(ids));
  });
  if (result.empty()) throw FormatError(what + ": no document with a token to predict");
  return result;
}

}  // namespace taper
