// Tapered RMS norms over all rows of a batch, split over a team (kernels/taper_norm.h has the
// formulas). R is float or double, T the type that products take: R or bf16. Rows [N, D].
#pragma once

#include <cstdint>

#include "kernels/folded_weight.h"
#include "kernels/taper_norm.h"
#include "ops/context.h"

namespace taper {

// Rows whose sums, over tokens, are added up together; those of the blocks are then added in order,
// so that results do not depend on the size of the team.
inline constexpr int64_t kNormRows = 256;

// Elements of R that norm_backward() works in.
inline int64_t norm_scratch(int64_t rows, int64_t width) {
  return 2 * num_blocks(rows, kNormRows) * width;
}

// y = N(h). `sums`, when given, is added to; rows whose `mask` byte is 0 are left out of it.
template <typename T>
void norm_forward(const OpContext& context, const TaperNormArgs<Real<T>>& args, int64_t rows,
                  const Real<T>* h, T* y, Real<T>* rstd, TaperNormSums* sums, const uint8_t* mask);

// dh = residual + the gradient through the norm (residual may be dh, or null). Adds to dgamma and,
// if not null, dgamma_t. y = N(h) again, when not null.
template <typename T>
void norm_backward(const OpContext& context, const TaperNormArgs<Real<T>>& args, int64_t rows,
                   const Real<T>* h, const Real<T>* dx, const Real<T>* rstd,
                   const Real<T>* residual, Real<T>* dh, Real<T>* dgamma, Real<T>* dgamma_t, T* y,
                   Real<T>* scratch);

// The rows as products take them: themselves, or in bf16 at `to`.
template <typename T>
const T* as_operand(const OpContext& context, int64_t rows, int64_t width, const Real<T>* h, T* to);

// r [N] of every row, the anchor's statistic s(h).
template <typename R>
void residual_scale(const OpContext& context, int64_t rows, int64_t width, R eps, const R* h, R* r);

// dh += the gradient of weight * sum over rows of (r - target)^2, masked rows left out.
template <typename R>
void anchor_backward(const OpContext& context, int64_t rows, int64_t width, R target, R weight,
                     const R* h, const R* r, const uint8_t* mask, R* dh);

}  // namespace taper
