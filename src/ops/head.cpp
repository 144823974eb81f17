#include "ops/head.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/cross_entropy.h"

namespace taper {
namespace {

// Logits of a chunk of rows. Rows at least half the width: each chunk reads the head's weight twice
// and its gradient once, and writes that.
constexpr int64_t kChunkElements = int64_t{1} << 20;
constexpr int64_t kMinChunkRows = 128;
// Rows of logits of a split.
constexpr int64_t kRows = 4;

int64_t rows_of_a_chunk(const HeadShape& s) {
  return std::clamp<int64_t>(s.rows, 1,
                             std::max({kMinChunkRows, s.width / 2, kChunkElements / s.vocab}));
}

}  // namespace

template <typename T>
HeadScratch<T>::HeadScratch(const HeadShape& shape, MemoryLayout& layout)
    : chunk_rows(rows_of_a_chunk(shape)) {
  logits = layout.take<Real<T>>(chunk_rows * shape.vocab);
  if constexpr (std::is_same_v<T, Real<T>>)
    dlogits = logits;
  else
    dlogits = layout.take<T>(chunk_rows * shape.vocab);
  losses = layout.take<double>(shape.rows);
  square_norms = layout.take<double>(shape.rows);
}

template <typename T>
HeadSums head_cross_entropy(const OpContext& context, LinearOp& linear, const HeadArgs<T>& args,
                            HeadScratch<T>& scratch) {
  const OpTimer time(context, OpKind::kHead, Direction::kForward);
  const int64_t width = args.shape.width;
  for (int64_t begin = 0; begin < args.shape.rows; begin += scratch.chunk_rows) {
    const int64_t count = std::min(scratch.chunk_rows, args.shape.rows - begin);
    const LinearShape shape{count, width, args.shape.vocab};
    const T* x = args.x + begin * width;
    linear.forward<T>(shape, x, args.weight, scratch.logits);
    const CrossEntropyArgs<T> rows{args.shape.vocab,
                                   args.targets + begin,
                                   scratch.logits,
                                   args.backward ? scratch.dlogits : nullptr,
                                   args.loss_weight,
                                   scratch.losses + begin,
                                   scratch.square_norms + begin};
    context.team.run_blocks(count, kRows,
                            [&](int64_t, Range range) { cross_entropy_rows<T>(rows, range); });
    if (!args.backward) continue;
    linear.input_gradient<T>(shape, scratch.dlogits, args.weight, args.dx + begin * width);
    linear.weight_gradient<T>(shape, scratch.dlogits, x, args.dweight);
  }
  HeadSums sums;
  for (int64_t n = 0; n < args.shape.rows; ++n) {
    if (args.targets[n] < 0) continue;
    sums.loss += scratch.losses[n];
    sums.logit_norm += std::sqrt(scratch.square_norms[n]);
    ++sums.count;
  }
  return sums;
}

#define TAPER_HEAD(T)                                                                      \
  template struct HeadScratch<T>;                                                          \
  template HeadSums head_cross_entropy<T>(const OpContext&, LinearOp&, const HeadArgs<T>&, \
                                          HeadScratch<T>&);
TAPER_HEAD(float)
TAPER_HEAD(bf16)
TAPER_HEAD(double)
#undef TAPER_HEAD

}  // namespace taper
