#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "text/byte_alphabet.h"
#include "text/corpus.h"
#include "text/framing.h"
#include "text/unicode.h"
#include "text/word_split.h"

namespace taper {

void WordCounts::add(std::string_view text) {
  split_gpt2(
      text,
      [&](std::string_view word) {
        while (word.size() > kMaxTrainingWord) {
          size_t cut = kMaxTrainingWord;
          while (cut > kMaxTrainingWord - 4 &&
                 (static_cast<unsigned char>(word[cut]) & 0xC0u) == 0x80u)
            --cut;
          add_word(word.substr(0, cut));
          word.remove_prefix(cut);
        }
        add_word(word);
      });
}

void WordCounts::add_word(std::string_view word) {
  if (const auto found = counts_.find(word); found != counts_.end())
    ++found->second;
  else
    counts_.emplace(word, 1);
}

WordCounts count_words(std::span<const std::filesystem::path> files, std::string_view separator) {
  constexpr size_t kPart = 1 << 20;
  const int64_t total = total_file_size(files);
  int64_t done = 0;
  Progress progress("counting words", total, "bytes");
  WordCounts words;
  for (const auto& path : files) {
    const MappedText file(path);
    for_each_document(file.text(), separator, [&](std::string_view document) {
      while (!document.empty()) {
        const size_t cut = gpt2_cut_point(document, kPart);
        words.add(document.substr(0, cut));
        document.remove_prefix(cut);
        progress.update(done + file.used_up_to(document));
        throw_if_interrupted();
      }
    });
    done += static_cast<int64_t>(file.text().size());
  }
  progress.update(total);
  return words;
}

void check_trainer_options(const BpeTrainerOptions& options) {
  const auto smallest = static_cast<int64_t>(256 + options.special_tokens.size());
  if (options.vocab_size < smallest)
    throw ConfigError(
        fmt::format("a vocabulary of {} entries cannot hold the 256 bytes and {} special "
                    "token(s)",
                    options.vocab_size, options.special_tokens.size()),
        fmt::format("ask for at least {} entries", smallest));
}

class BpeTrainer {
 public:
  BpeTrainer(const WordCounts& words, const BpeTrainerOptions& options) : options_(options) {
    check_trainer_options(options);
    make_alphabet();
    make_words(words);
  }

  BpeTrainerResult run();

 private:
  using PairKey = uint64_t;
  static PairKey key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  struct Word {
    size_t begin;     // in symbols_
    uint32_t length;  // shrinks as pairs merge
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // where it occurs, or did
  };
  struct Candidate {
    int64_t count;  // an upper bound: counts that fell are corrected when they come up
    PairKey pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void make_alphabet();
  void make_words(const WordCounts& words);
  void merge_in_word(uint32_t word, TokenId left, TokenId right, TokenId result);
  void change(TokenId left, TokenId right, int64_t amount, uint32_t word);
  // The pair to merge next; false when none is frequent enough.
  bool next_pair(PairKey* pair);
  TokenId token_for(const std::string& text);

  const BpeTrainerOptions& options_;
  TokenizerSpec spec_;
  std::unordered_map<std::string, TokenId> ids_;
  TokenId byte_ids_[256];
  std::vector<TokenId> symbols_;
  std::vector<Word> words_;
  std::unordered_map<PairKey, Pair> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<PairKey> grown_;
  std::unordered_set<PairKey> merged_;
  int64_t bytes_ = 0, tokens_ = 0;
};

TokenId BpeTrainer::token_for(const std::string& text) {
  const auto [found, added] = ids_.emplace(text, static_cast<TokenId>(spec_.vocab.size()));
  if (added) spec_.vocab.push_back(text);
  return found->second;
}

void BpeTrainer::make_alphabet() {
  for (const std::string& token : options_.special_tokens) {
    const TokenId id = token_for(token);
    spec_.added.push_back({id, token, true, false});
    if (token == kEndOfText) spec_.eos = id;
  }
  std::vector<int> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[i] = i;
  const auto stand_in = [](int byte) { return byte_to_char(static_cast<unsigned char>(byte)); };
  std::sort(bytes.begin(), bytes.end(), [&](int a, int b) { return stand_in(a) < stand_in(b); });
  for (const int byte : bytes)
    byte_ids_[byte] = token_for(bytes_to_chars(std::string(1, static_cast<char>(byte))));
  spec_.steps = {SplitStep::kGpt2};
}

void BpeTrainer::make_words(const WordCounts& words) {
  for (const auto& [text, count] : words.counts_) {
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), static_cast<uint32_t>(text.size()), count});
    for (const char byte : text) symbols_.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    bytes_ += static_cast<int64_t>(text.size()) * count;
    const TokenId* symbols = symbols_.data() + words_.back().begin;
    for (size_t i = 0; i + 1 < text.size(); ++i) change(symbols[i], symbols[i + 1], count, word);
  }
  tokens_ = bytes_;
  grown_.clear();
  for (const auto& [pair, info] : pairs_) queue_.push({info.count, pair});
}

void BpeTrainer::change(TokenId left, TokenId right, int64_t amount, uint32_t word) {
  const PairKey pair = key(left, right);
  Pair& info = pairs_[pair];
  info.count += amount;
  if (amount <= 0) return;
  if (info.words.empty() || info.words.back() != word) info.words.push_back(word);
  grown_.push_back(pair);
}

bool BpeTrainer::next_pair(PairKey* pair) {
  while (!queue_.empty()) {
    Candidate top = queue_.top();
    queue_.pop();
    const auto found = pairs_.find(top.pair);
    const int64_t count = found == pairs_.end() ? 0 : found->second.count;
    if (count < std::max<int64_t>(options_.min_frequency, 1)) {
      if (found != pairs_.end() && count <= 0) pairs_.erase(found);
      continue;
    }
    if (count < top.count) {
      top.count = count;
      queue_.push(top);
      continue;
    }
    *pair = top.pair;
    return true;
  }
  return false;
}

void BpeTrainer::merge_in_word(uint32_t word, TokenId left, TokenId right, TokenId result) {
  Word& info = words_[word];
  TokenId* symbols = symbols_.data() + info.begin;
  uint32_t out = 0;
  for (uint32_t i = 0; i < info.length;) {
    if (i + 1 == info.length || symbols[i] != left || symbols[i + 1] != right) {
      symbols[out++] = symbols[i++];
      continue;
    }
    if (out > 0) {
      change(symbols[out - 1], left, -info.count, word);
      change(symbols[out - 1], result, info.count, word);
    }
    if (i + 2 < info.length) {
      change(right, symbols[i + 2], -info.count, word);
      change(result, symbols[i + 2], info.count, word);
    }
    symbols[out++] = result;
    i += 2;
  }
  tokens_ -= (info.length - out) * info.count;
  info.length = out;
}

BpeTrainerResult BpeTrainer::run() {
  Progress progress("learning the vocabulary", options_.vocab_size, "entries");
  while (static_cast<int64_t>(spec_.vocab.size()) < options_.vocab_size) {
    PairKey pair = 0;
    if (!next_pair(&pair)) {
      log_warning(
          fmt::format("the vocabulary has {} entries instead of {}: the text has no further pair "
                      "that occurs {} times",
                      spec_.vocab.size(), options_.vocab_size, options_.min_frequency));
      break;
    }
    const auto left = static_cast<TokenId>(pair >> 32), right = static_cast<TokenId>(pair);
    const TokenId result = token_for(spec_.vocab[left] + spec_.vocab[right]);
    // Two splits of one entry may both be merged; a pair can then turn up again.
    if (merged_.insert(pair).second) spec_.merges.push_back({left, right, result});
    std::vector<uint32_t> words = std::move(pairs_[pair].words);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    grown_.clear();
    for (const uint32_t word : words) merge_in_word(word, left, right, result);
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const PairKey grown : grown_)
      if (const auto found = pairs_.find(grown); found != pairs_.end() && found->second.count > 0)
        queue_.push({found->second.count, grown});
    if (spec_.merges.size() % 64 == 0) {
      throw_if_interrupted();
      progress.update(static_cast<int64_t>(spec_.vocab.size()));
    }
  }
  progress.update(static_cast<int64_t>(spec_.vocab.size()));
  return {std::move(spec_), bytes_, tokens_};
}

BpeTrainerResult train_bpe(const WordCounts& words, const BpeTrainerOptions& options) {
  return BpeTrainer(words, options).run();
}

}  // namespace taper
