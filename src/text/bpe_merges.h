// The merge step of byte-pair encoding: which pairs join, in which order, into what.
//
// merge_tail applies, over and over, the applicable merge of the lowest rank, the leftmost first
// among equals, as Hugging Face `tokenizers` does. Short words scan; long ones use a heap, so that
// a run of n equal letters costs n log n. Immutable after construction, hence thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace taper {

struct BpeMerge {
  TokenId left, right, result;  // rank: the index in the list
};

class BpeMerges {
 public:
  BpeMerges() = default;
  explicit BpeMerges(const std::vector<BpeMerge>& merges);

  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t rank(TokenId left, TokenId right) const {
    const uint64_t key = make_key(left, right);
    for (size_t i = slot(key);; i = (i + 1) & mask_)
      if (table_[i].rank == kNone || table_[i].key == key) return table_[i].rank;
  }
  TokenId result(uint32_t rank) const { return results_[rank]; }

  // Merges the symbols from `begin` to the end of `symbols` in place.
  void merge_tail(std::vector<TokenId>& symbols, size_t begin) const;

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t rank = kNone;
  };
  static uint64_t make_key(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }
  size_t slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }
  void merge_short(std::vector<TokenId>& symbols, size_t begin) const;
  void merge_long(std::vector<TokenId>& symbols, size_t begin) const;

  std::vector<Slot> table_ = std::vector<Slot>(2);
  size_t mask_ = 1;
  int shift_ = 63;
  std::vector<TokenId> results_;
};

}  // namespace taper
