// Rows of a table by token id, and the gradient of the table. Ids lie in the table, which the
// caller has checked.
#pragma once

#include <cstdint>

#include "ops/context.h"

namespace taper {

// h[n] = table[ids[n]], rows of `width` values.
template <typename R>
void embedding_forward(const OpContext& context, int64_t rows, int64_t width, const int64_t* ids,
                       const R* table, R* h);

// dtable[ids[n]] += dh[n]. Additions into a row keep the order of the ids.
template <typename R>
void embedding_backward(const OpContext& context, int64_t rows, int64_t width, int64_t vocab_size,
                        const int64_t* ids, const R* dh, R* dtable);

}  // namespace taper
