#include "text/bpe_merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

namespace taper {
namespace {

constexpr size_t kShortWord = 48;

}  // namespace

BpeMerges::BpeMerges(const std::vector<BpeMerge>& merges) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(2 * merges.size() + 2, 4));
  table_.assign(capacity, Slot{});
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  results_.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    const uint64_t key = make_key(merge.left, merge.right);
    size_t i = slot(key);
    while (table_[i].rank != kNone && table_[i].key != key) i = (i + 1) & mask_;
    if (table_[i].rank == kNone) table_[i] = {key, static_cast<uint32_t>(results_.size())};
    results_.push_back(merge.result);
  }
}

void BpeMerges::merge_tail(std::vector<TokenId>& symbols, size_t begin) const {
  const size_t count = symbols.size() - begin;
  if (count < 2) return;
  if (count <= kShortWord)
    merge_short(symbols, begin);
  else
    merge_long(symbols, begin);
}

void BpeMerges::merge_short(std::vector<TokenId>& symbols, size_t begin) const {
  TokenId* word = symbols.data() + begin;
  size_t count = symbols.size() - begin;
  std::array<uint32_t, kShortWord> ranks;  // of the pair that starts at each position
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank(word[i], word[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNone) break;
    word[best] = results_[ranks[best]];
    std::copy(word + best + 2, word + count, word + best + 1);
    std::copy(ranks.data() + std::min(best + 2, count - 1), ranks.data() + count - 1,
              ranks.data() + best + 1);
    --count;
    if (best > 0) ranks[best - 1] = rank(word[best - 1], word[best]);
    if (best + 1 < count) ranks[best] = rank(word[best], word[best + 1]);
  }
  symbols.resize(begin + count);
}

void BpeMerges::merge_long(std::vector<TokenId>& symbols, size_t begin) const {
  // A doubly linked list over the positions; an entry of the heap is stale when the pair at its
  // position has another rank by now.
  const size_t count = symbols.size() - begin;
  constexpr size_t kEnd = SIZE_MAX;
  struct Node {
    TokenId id;
    size_t previous, next;
    bool alive = true;
  };
  struct Candidate {
    uint32_t rank;
    size_t position;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::vector<Node> nodes(count);
  for (size_t i = 0; i < count; ++i)
    nodes[i] = {symbols[begin + i], i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1};
  const auto rank_at = [&](size_t i) {
    return nodes[i].next == kEnd ? kNone : rank(nodes[i].id, nodes[nodes[i].next].id);
  };
  std::vector<Candidate> initial;
  for (size_t i = 0; i + 1 < count; ++i)
    if (const uint32_t r = rank_at(i); r != kNone) initial.push_back({r, i});
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap(std::greater<>{},
                                                                              std::move(initial));
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    Node& node = nodes[top.position];
    if (!node.alive || rank_at(top.position) != top.rank) continue;
    Node& gone = nodes[node.next];
    gone.alive = false;
    node.id = results_[top.rank];
    node.next = gone.next;
    if (node.next != kEnd) nodes[node.next].previous = top.position;
    if (const uint32_t r = rank_at(top.position); r != kNone) heap.push({r, top.position});
    if (node.previous != kEnd)
      if (const uint32_t r = rank_at(node.previous); r != kNone) heap.push({r, node.previous});
  }
  size_t out = begin;
  for (size_t i = 0; i != kEnd; i = nodes[i].next) symbols[out++] = nodes[i].id;
  symbols.resize(out);
}

}  // namespace taper
