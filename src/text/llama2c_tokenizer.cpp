#include "text/llama2c_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace taper {
namespace {

constexpr int32_t kMaxEntryBytes = 1024;
constexpr size_t kFirstByteToken = 3, kNumSpecials = 3;

struct Entry {
  float score;
  std::string text;
};

class EntryReader {
 public:
  EntryReader(std::span<const std::byte> file, const std::string& what)
      : file_(file), what_(what) {}

  std::vector<Entry> read() {
    const int32_t longest = take<int32_t>();
    if (longest < 1 || longest > kMaxEntryBytes)
      fail(fmt::format("the longest entry has {} bytes, expected 1..{}", longest, kMaxEntryBytes));
    std::vector<Entry> entries;
    while (position_ < file_.size()) {
      Entry entry{take<float>(), ""};
      const int32_t length = take<int32_t>();
      if (length < 0 || length > longest)
        fail(fmt::format("entry {} has {} bytes, expected 0..{}", entries.size(), length, longest));
      if (!std::isfinite(entry.score))
        fail(fmt::format("entry {} has no finite score", entries.size()));
      entry.text.resize(length);
      copy(entry.text.data(), length);
      entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) {
    throw FormatError(fmt::format("{}: byte {}: {}", what_, position_, reason),
                      "expected a tokenizer file of llama2.c");
  }
  void copy(void* target, size_t size) {
    if (file_.size() - position_ < size) fail("the file ends within an entry");
    if (size > 0) std::memcpy(target, file_.data() + position_, size);
    position_ += size;
  }
  template <typename T>
  T take() {
    T value;
    copy(&value, sizeof value);
    return value;
  }

  std::span<const std::byte> file_;
  const std::string& what_;
  size_t position_ = 0;
};

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string space_to_mark(std::string_view text) {
  std::string marked;
  for (const char c : text)
    if (c == ' ')
      marked += kSpaceMark;
    else
      marked += c;
  return marked;
}

std::vector<std::string> make_vocab(const std::vector<Entry>& entries, const std::string& what) {
  if (entries.size() < kFirstByteToken + 256)
    throw FormatError(
        fmt::format("{}: {} entries, expected at least {} (3 special ones, 256 bytes)", what,
                    entries.size(), kFirstByteToken + 256));
  std::vector<std::string> vocab = {"<unk>", "<s>", "</s>"};
  for (size_t id = kNumSpecials; id < entries.size(); ++id) {
    const std::string& text = entries[id].text;
    if (!is_utf8(text)) throw FormatError(fmt::format("{}: entry {} is not valid UTF-8", what, id));
    vocab.push_back(space_to_mark(text));
    const bool byte_place = id < kFirstByteToken + 256;
    const int byte = static_cast<int>(id - kFirstByteToken);
    if (byte_place && text != byte_token(static_cast<unsigned char>(byte)))
      throw FormatError(fmt::format("{}: entry {} is \"{}\", expected the byte token {}", what, id,
                                    text, byte_token(static_cast<unsigned char>(byte))));
  }
  return vocab;
}

// Every way to split an entry into two, entries of the best score first.
std::vector<BpeMerge> make_merges(const std::vector<Entry>& entries,
                                  const std::vector<std::string>& vocab, const std::string& what) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (size_t id = kNumSpecials; id < vocab.size(); ++id)
    ids.emplace(vocab[id], static_cast<TokenId>(id));
  std::vector<BpeMerge> merges;
  for (size_t id = kNumSpecials; id < vocab.size(); ++id) {
    const std::string_view text = vocab[id];
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({left->second, right->second, static_cast<TokenId>(id)});
    }
  }
  const auto score = [&](const BpeMerge& merge) { return entries[merge.result].score; };
  std::stable_sort(merges.begin(), merges.end(),
                   [&](const BpeMerge& a, const BpeMerge& b) { return score(a) > score(b); });
  for (size_t i = 1; i < merges.size(); ++i)
    if (merges[i].result != merges[i - 1].result && score(merges[i]) == score(merges[i - 1]))
      throw FormatError(
          fmt::format("{}: entries {} and {} share the score {}, which leaves their order "
                      "to their place in the text",
                      what, merges[i - 1].result, merges[i].result, score(merges[i])),
          "a tokenizer.json cannot express this; give the entries different scores");
  return merges;
}

}  // namespace

std::string llama2c_tokenizer_to_json(std::span<const std::byte> file, const std::string& what) {
  const std::vector<Entry> entries = EntryReader(file, what).read();
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePiece;
  spec.vocab = make_vocab(entries, what);
  spec.merges = make_merges(entries, spec.vocab, what);
  spec.added = {{0, "<unk>"}, {1, "<s>"}, {2, "</s>"}};
  spec.dummy_prefix = true;
  spec.unk = 0;
  spec.bos = 1;
  spec.eos = 2;
  check_tokenizer_spec(spec, what);
  return tokenizer_spec_to_json(spec);
}

}  // namespace taper
