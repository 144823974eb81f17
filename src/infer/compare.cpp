#include "infer/compare.h"

#include <algorithm>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"

namespace taper {
namespace {

constexpr size_t kChunk = 64;  // positions whose logits are in memory at once

size_t longest(const TokenSample& sample) {
  size_t length = 1;
  for (const auto& ids : sample.sequences) length = std::max(length, ids.size());
  return length;
}

}  // namespace

LogitComparison compare_models(const Model& reference, const Model& other, ThreadPool& pool,
                               const TokenSample& sample) {
  TAPER_CHECK(reference.config().vocab_size == other.config().vocab_size);
  const auto vocab = static_cast<size_t>(reference.config().vocab_size);
  const auto capacity = static_cast<int64_t>(longest(sample));
  Session first(reference, pool, capacity);
  Session second(other, pool, capacity);
  Progress progress("comparing", sample.num_tokens(), "tokens");
  LogitComparison comparison;
  for (const auto& ids : sample.sequences) {
    first.rewind();
    second.rewind();
    for (size_t begin = 0; begin < ids.size(); begin += kChunk) {
      throw_if_interrupted();
      const auto chunk = std::span(ids).subspan(begin, std::min(kChunk, ids.size() - begin));
      const auto a = first.forward(chunk, LogitRows::kAll);
      const auto b = second.forward(chunk, LogitRows::kAll);
      for (size_t row = 0; row < chunk.size(); ++row)
        comparison.add(a.subspan(row * vocab, vocab), b.subspan(row * vocab, vocab));
      progress.update(comparison.positions());
    }
  }
  return comparison;
}

}  // namespace taper
