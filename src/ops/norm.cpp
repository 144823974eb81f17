#include "ops/norm.h"

#include <cstring>
#include <type_traits>
#include <vector>

namespace taper {

template <typename T>
void norm_forward(const OpContext& context, const TaperNormArgs<Real<T>>& args, int64_t rows,
                  const Real<T>* h, T* y, Real<T>* rstd, TaperNormSums* sums, const uint8_t* mask) {
  const OpTimer time(context, OpKind::kNorm, Direction::kForward);
  std::vector<TaperNormSums> parts(sums ? static_cast<size_t>(num_blocks(rows, kNormRows)) : 0);
  context.team.run_blocks(rows, kNormRows, [&](int64_t block, Range range) {
    TaperNormSums* part = sums ? &parts[static_cast<size_t>(block)] : nullptr;
    taper_rms_norm_forward<Real<T>>(args, range, h, y, rstd, part, mask);
  });
  for (const TaperNormSums& part : parts) *sums += part;
}

template <typename T>
void norm_backward(const OpContext& context, const TaperNormArgs<Real<T>>& args, int64_t rows,
                   const Real<T>* h, const Real<T>* dx, const Real<T>* rstd,
                   const Real<T>* residual, Real<T>* dh, Real<T>* dgamma, Real<T>* dgamma_t, T* y,
                   Real<T>* scratch) {
  const OpTimer time(context, OpKind::kNorm, Direction::kBackward);
  const int64_t width = args.width, blocks = num_blocks(rows, kNormRows);
  Real<T>* parts = scratch;
  Real<T>* parts_t = scratch + blocks * width;
  context.team.run_blocks(rows, kNormRows, [&](int64_t block, Range range) {
    Real<T>* part = parts + block * width;
    Real<T>* part_t = parts_t + block * width;
    std::memset(part, 0, sizeof(Real<T>) * static_cast<size_t>(width));
    std::memset(part_t, 0, sizeof(Real<T>) * static_cast<size_t>(width));
    taper_rms_norm_backward<Real<T>>(args, range, h, dx, rstd, residual, dh, part, part_t, y);
  });
  for (int64_t block = 0; block < blocks; ++block) {
    add_row(parts + block * width, width, dgamma);
    if (dgamma_t) add_row(parts_t + block * width, width, dgamma_t);
  }
}

template <typename T>
const T* as_operand(const OpContext& context, int64_t rows, int64_t width, const Real<T>* h,
                    [[maybe_unused]] T* to) {
  if constexpr (std::is_same_v<T, bf16>) {
    const OpTimer time(context, OpKind::kNorm, Direction::kForward);
    context.team.run_blocks(rows, kNormRows, [&](int64_t, Range range) {
      convert(h + range.begin * width, range.size() * width, to + range.begin * width);
    });
    return to;
  } else {
    return h;
  }
}

template <typename R>
void residual_scale(const OpContext& context, int64_t rows, int64_t width, R eps, const R* h,
                    R* r) {
  context.team.run_blocks(
      rows, kNormRows,
      [&](int64_t, Range range) { residual_scale_rows<R>(range, width, eps, h, r); });
}

template <typename R>
void anchor_backward(const OpContext& context, int64_t rows, int64_t width, R target, R weight,
                     const R* h, const R* r, const uint8_t* mask, R* dh) {
  const OpTimer time(context, OpKind::kOther, Direction::kBackward);
  context.team.run_blocks(rows, kNormRows, [&](int64_t, Range range) {
    anchor_backward_rows<R>(range, width, target, weight, h, r, mask, dh);
  });
}

#define TAPER_NORM(T)                                                                            \
  template void norm_forward<T>(const OpContext&, const TaperNormArgs<Real<T>>&, int64_t,        \
                                const Real<T>*, T*, Real<T>*, TaperNormSums*, const uint8_t*);   \
  template void norm_backward<T>(const OpContext&, const TaperNormArgs<Real<T>>&, int64_t,       \
                                 const Real<T>*, const Real<T>*, const Real<T>*, const Real<T>*, \
                                 Real<T>*, Real<T>*, Real<T>*, T*, Real<T>*);                    \
  template const T* as_operand<T>(const OpContext&, int64_t, int64_t, const Real<T>*, T*);
TAPER_NORM(float)
TAPER_NORM(bf16)
TAPER_NORM(double)
#undef TAPER_NORM

#define TAPER_ANCHOR(R)                                                                          \
  template void residual_scale<R>(const OpContext&, int64_t, int64_t, R, const R*, R*);          \
  template void anchor_backward<R>(const OpContext&, int64_t, int64_t, R, R, const R*, const R*, \
                                   const uint8_t*, R*);
TAPER_ANCHOR(float)
TAPER_ANCHOR(double)
#undef TAPER_ANCHOR

}  // namespace taper
