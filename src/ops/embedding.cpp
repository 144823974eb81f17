#include "ops/embedding.h"

#include <algorithm>

#include "kernels/folded_weight.h"

namespace taper {

template <typename R>
void embedding_forward(const OpContext& context, int64_t rows, int64_t width, const int64_t* ids,
                       const R* table, R* h) {
  const OpTimer time(context, OpKind::kEmbedding, Direction::kForward);
  constexpr int64_t kRows = 256;
  context.team.run_blocks(rows, kRows, [&](int64_t, Range range) {
    for (int64_t n = range.begin; n < range.end; ++n)
      std::copy_n(table + ids[n] * width, width, h + n * width);
  });
}

template <typename R>
void embedding_backward(const OpContext& context, int64_t rows, int64_t width, int64_t vocab_size,
                        const int64_t* ids, const R* dh, R* dtable) {
  const OpTimer time(context, OpKind::kEmbedding, Direction::kBackward);
  // Each thread owns rows of the table and walks over all ids.
  context.team.run(vocab_size, 1, [&](Range owned) {
    for (int64_t n = 0; n < rows; ++n)
      if (ids[n] >= owned.begin && ids[n] < owned.end)
        add_row(dh + n * width, width, dtable + ids[n] * width);
  });
}

#define TAPER_EMBEDDING(R)                                                                         \
  template void embedding_forward<R>(const OpContext&, int64_t, int64_t, const int64_t*, const R*, \
                                     R*);                                                          \
  template void embedding_backward<R>(const OpContext&, int64_t, int64_t, int64_t, const int64_t*, \
                                      const R*, R*);
TAPER_EMBEDDING(float)
TAPER_EMBEDDING(double)
#undef TAPER_EMBEDDING

}  // namespace taper
