// A range of items, rows or elements: what work is split into.
#pragma once

#include <algorithm>
#include <cstdint>

namespace taper {

// Items [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Blocks of `size` items that `count` items make; the last may be shorter.
inline int64_t num_blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

inline Range block_range(int64_t block, int64_t size, int64_t count) {
  return {block * size, std::min((block + 1) * size, count)};
}

}  // namespace taper
