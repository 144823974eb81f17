// Training batches: random contiguous windows of one token stream (method.md, section 3).
//
// A window's place is a pure function of (seed, micro-batch index, row): there is no loader state
// to save, and paired runs with one seed see the same data in the same order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/token_shard.h"
#include "text/framing.h"
#include "text/tokenizer.h"
#include "train/pass/lane.h"

namespace taper {

struct Batch {
  int64_t rows = 0, window = 0;
  std::vector<int64_t> inputs;   // [rows, window]
  std::vector<int64_t> targets;  // [rows, window], inputs shifted by one

  BatchView view() const { return {inputs.data(), targets.data(), rows, window}; }
};

// Opens a shard for a model: FormatError when its tokenizer is not `tokenizer` (nullptr: any), when
// an id may lie beyond `vocab_size`, or when it holds less than one window and its target.
TokenShard open_shard(const std::filesystem::path& path, int64_t vocab_size,
                      const Tokenizer* tokenizer, int64_t window);

// Where the documents of a shard start: at its first token, at every token that stands before one,
// and behind every token that stands after one.
std::vector<int64_t> document_starts(const TokenShard& shard, const Framing& framing);

enum class WindowStart { kAnywhere, kDocument, kMixed };
WindowStart parse_window_start(std::string_view text, const std::string& where);  // ConfigError

class WindowSampler {
 public:
  // `documents`: where windows may begin if `start` is not kAnywhere; kMixed takes them for even
  // rows.
  WindowSampler(const TokenShard& shard, int64_t window, uint64_t seed,
                WindowStart start = WindowStart::kAnywhere, std::vector<int64_t> documents = {});
  // Rows [0, rows) of micro-batch `index`.
  Batch random(int64_t index, int64_t rows) const;
  // Has the same rows read from the disk in the background, so that random() does not wait for it.
  void prefetch(int64_t index, int64_t rows) const;

 private:
  int64_t place(int64_t index, int64_t rows, int64_t row) const;

  const TokenShard& shard_;
  int64_t window_;
  uint64_t seed_;
  WindowStart start_;
  std::vector<int64_t> documents_;  // that leave room for a window and its target
};

// Validation windows: `count` of them (0: all), non-overlapping, spread evenly over the shard.
class FixedWindows {
 public:
  FixedWindows(const TokenShard& shard, int64_t window, int64_t count);
  int64_t size() const { return count_; }
  Batch batch(int64_t begin, int64_t rows) const;

 private:
  const TokenShard& shard_;
  int64_t window_, available_, count_;
};

}  // namespace taper
