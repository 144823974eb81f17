// Learns a byte-level BPE vocabulary from text.
//
// Ids: special tokens first, then the 256 bytes in the order of their stand-in characters
// (byte_alphabet.h), then one entry a merge. Each step merges the most frequent pair of
// neighbouring symbols within words; among equally frequent pairs the one with the smallest ids
// (left, then right). This is the order of Hugging Face `tokenizers`' BpeTrainer, and the result is
// the same for the same text, whatever the machine. Words longer than kMaxTrainingWord bytes are
// counted in parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer_spec.h"

namespace taper {

struct BpeTrainerOptions {
  int64_t vocab_size = 0;     // at least 256 + the special tokens
  int64_t min_frequency = 2;  // pairs that occur less often are not merged
  std::vector<std::string> special_tokens = {std::string(kEndOfText)};
};

constexpr size_t kMaxTrainingWord = 4096;

// How often each word (split_gpt2) occurs in the texts added.
class WordCounts {
 public:
  void add(std::string_view text);
  bool empty() const { return counts_.empty(); }

 private:
  friend class BpeTrainer;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  void add_word(std::string_view word);
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

// The words of the documents in `files`, with progress. Throws Interrupted on Ctrl-C.
WordCounts count_words(std::span<const std::filesystem::path> files, std::string_view separator);

struct BpeTrainerResult {
  TokenizerSpec spec;
  int64_t bytes = 0, tokens = 0;  // of the training text under the result
};

// ConfigError for a vocabulary too small to hold the bytes.
void check_trainer_options(const BpeTrainerOptions& options);

// Too little text for the size asked for
// gives a smaller vocabulary and a warning. Throws Interrupted on Ctrl-C.
BpeTrainerResult train_bpe(const WordCounts& words, const BpeTrainerOptions& options);

}  // namespace taper
