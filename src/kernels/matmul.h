// Matrix product with a transposed right side, the shape of every linear layer:
//   y[r, n] (+)= sum over k of x[r, k] * w[n, k]
// fp32. Each output is one chain of vector additions whose order depends on `depth` alone, so a
// row's result is the same bits alone (decoding) or among others (prefill, batches), and for any
// split of the outputs over threads. It does differ between SIMD widths. Thread-safe: callers may
// run disjoint output ranges in parallel. No allocation, no exception.
#pragma once

#include <cstdint>

#include "core/range.h"

namespace taper {

struct MatmulArgs {
  const float* x;  // [rows, depth], row r at x + r * x_stride
  int64_t x_stride;
  const float* w;  // [outputs, depth], row n at w + n * w_stride
  int64_t w_stride;
  float* y;  // [rows, outputs], row r at y + r * y_stride
  int64_t y_stride;
  int64_t rows;
  int64_t depth;
  bool accumulate;  // add to y instead of overwriting it
};

// Computes these outputs of every row.
void matmul_transposed(const MatmulArgs& args, Range outputs);

}  // namespace taper
