// The split of rows over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/types.h"

namespace taper {

inline int64_t num_blocks(int64_t rows, int64_t size) { return (rows + size - 1) / size; }

// body(block, rows) over blocks of `size` rows, split over the threads.
template <class Body>
void parallel_blocks(int64_t rows, int64_t size, const Body& body) {
  const int64_t count = num_blocks(rows, size);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i, Range{i * size, std::min((i + 1) * size, rows)});
}

}  // namespace taper
