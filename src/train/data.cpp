#include "train/data.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace taper {

namespace {

constexpr uint64_t kDataStream = 0x64617461;  // "data"

Batch empty_batch(int64_t rows, int64_t window) {
  const auto size = static_cast<size_t>(rows * window);
  return {rows, window, std::vector<int64_t>(size), std::vector<int64_t>(size)};
}

void fill_row(const TokenShard& shard, int64_t begin, int64_t row, Batch& batch) {
  const auto size = static_cast<size_t>(batch.window), at = static_cast<size_t>(row) * size;
  shard.copy(begin, std::span(batch.inputs).subspan(at, size));
  shard.copy(begin + 1, std::span(batch.targets).subspan(at, size));
}

}  // namespace

TokenShard open_shard(const std::filesystem::path& path, int64_t vocab_size,
                      const Tokenizer* tokenizer, int64_t window) {
  TokenShard shard(path);
  if (shard.vocab_size() > vocab_size)
    throw FormatError(
        fmt::format("{}: token ids reach up to {}, beyond the model's vocabulary of {}",
                    path.string(), shard.vocab_size() - 1, vocab_size),
        "prepare the text with the model's own tokenizer, or set model.vocab_size");
  if (tokenizer && shard.tokenizer_fingerprint() != tokenizer->fingerprint())
    throw FormatError(
        fmt::format("{}: made with another tokenizer (fingerprint {:016x}, expected {:016x})",
                    path.string(), shard.tokenizer_fingerprint(), tokenizer->fingerprint()),
        "run `taper data prepare` with the model's tokenizer.json");
  if (shard.size() < window + 1)
    throw FormatError(fmt::format("{}: {} tokens are too few for one window of {} and its target",
                                  path.string(), shard.size(), window),
                      "add text, or lower train.window");
  return shard;
}

std::vector<int64_t> document_starts(const TokenShard& shard, const Framing& framing) {
  std::vector<int64_t> starts = {0};
  for (int64_t i = 1; i < shard.size(); ++i)
    if (shard[i] == framing.before || shard[i - 1] == framing.after) starts.push_back(i);
  return starts;
}

WindowStart parse_window_start(std::string_view text, const std::string& where) {
  if (text == "anywhere") return WindowStart::kAnywhere;
  if (text == "document") return WindowStart::kDocument;
  if (text == "mixed") return WindowStart::kMixed;
  throw ConfigError(fmt::format("{}: data.start is \"{}\"", where, text),
                    "use \"anywhere\", \"document\" or \"mixed\"");
}

WindowSampler::WindowSampler(const TokenShard& shard, int64_t window, uint64_t seed,
                             WindowStart start, std::vector<int64_t> documents)
    : shard_(shard), window_(window), seed_(seed), start_(start), documents_(std::move(documents)) {
  TAPER_CHECK(shard.size() > window);
  std::erase_if(documents_, [&](int64_t begin) { return begin + window >= shard.size(); });
  // The shard's first token starts a document and leaves room, so there always is one.
  TAPER_CHECK(start == WindowStart::kAnywhere || !documents_.empty());
}

int64_t WindowSampler::place(int64_t index, int64_t rows, int64_t row) const {
  // Each row draws from a stream of its own, so that the number of words drawn does not matter.
  Random random(seed_, kDataStream + (static_cast<uint64_t>(index * rows + row) << 32));
  const bool document =
      start_ == WindowStart::kDocument || (start_ == WindowStart::kMixed && row % 2 == 0);
  const int64_t places =
      document ? static_cast<int64_t>(documents_.size()) : shard_.size() - window_;
  const auto drawn = static_cast<int64_t>(random.below(static_cast<uint64_t>(places)));
  return document ? documents_[static_cast<size_t>(drawn)] : drawn;
}

Batch WindowSampler::random(int64_t index, int64_t rows) const {
  Batch batch = empty_batch(rows, window_);
  for (int64_t row = 0; row < rows; ++row) fill_row(shard_, place(index, rows, row), row, batch);
  return batch;
}

void WindowSampler::prefetch(int64_t index, int64_t rows) const {
  for (int64_t row = 0; row < rows; ++row) shard_.will_need(place(index, rows, row), window_ + 1);
}

FixedWindows::FixedWindows(const TokenShard& shard, int64_t window, int64_t count)
    : shard_(shard), window_(window), available_((shard.size() - 1) / window) {
  count_ = count == 0 ? available_ : std::min(count, available_);
}

Batch FixedWindows::batch(int64_t begin, int64_t rows) const {
  rows = std::min(rows, count_ - begin);
  Batch batch = empty_batch(rows, window_);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t place = (begin + row) * available_ / count_;
    fill_row(shard_, place * window_, row, batch);
  }
  return batch;
}

}  // namespace taper
