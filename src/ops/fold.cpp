#include "ops/fold.h"

#include <vector>

namespace taper {
namespace {

// Rows or columns of a split.
constexpr int64_t kBlock = 64;

}  // namespace

template <typename T>
void fold_forward(ThreadPool& team, int64_t out, int64_t in, const Real<T>* weight,
                  const Real<T>* gamma_t, Real<T> c, T* to) {
  std::vector<Real<T>> scale;
  if (gamma_t)
    for (int64_t i = 0; i < in; ++i) scale.push_back(c * gamma_t[i]);
  team.run_blocks(out, kBlock, [&](int64_t, Range rows) {
    fold_weight<T>(rows, in, weight, gamma_t ? scale.data() : nullptr, to);
  });
}

template <typename R>
void fold_backward(ThreadPool& team, const FoldedWeightGradient<R>& args) {
  team.run_blocks(
      args.in, kBlock, [&](int64_t, Range columns) { fold_weight_backward<R>(args, columns); });
}

#define TAPER_FOLD(T)                                                                          \
  template void fold_forward<T>(ThreadPool&, int64_t, int64_t, const Real<T>*, const Real<T>*, \
                                Real<T>, T*);
TAPER_FOLD(float)
TAPER_FOLD(bf16)
TAPER_FOLD(double)
#undef TAPER_FOLD
template void fold_backward<float>(ThreadPool&, const FoldedWeightGradient<float>&);
template void fold_backward<double>(ThreadPool&, const FoldedWeightGradient<double>&);

}  // namespace taper
