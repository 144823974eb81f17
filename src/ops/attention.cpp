#include "ops/attention.h"

#include <algorithm>

namespace taper {
namespace {

int64_t scratch_of_a_thread(const AttentionShape& shape) {
  return std::max(attention_forward_scratch(shape), attention_backward_scratch(shape));
}

}  // namespace

int64_t attention_scratch(const AttentionShape& shape, int threads) {
  return threads * scratch_of_a_thread(shape);
}

template <typename T>
void attention_forward(const OpContext& context, const AttentionShape& shape, const T* qkv,
                       const RopeTable<Real<T>>& rope, T* mixed, Real<T>* lse, Real<T>* scratch) {
  const OpTimer time(context, OpKind::kAttention, Direction::kForward);
  context.team.run(shape.groups(), 1, [&](Range groups, int part) {
    attention_forward_groups<T>(shape, groups, qkv, rope.cosines(0), rope.sines(0), mixed, lse,
                                scratch + part * scratch_of_a_thread(shape));
  });
}

template <typename T>
void attention_backward(const OpContext& context, const AttentionShape& shape, const T* qkv,
                        const RopeTable<Real<T>>& rope, const T* mixed, const Real<T>* lse,
                        const T* dmixed, T* dqkv, Real<T>* scratch) {
  const OpTimer time(context, OpKind::kAttention, Direction::kBackward);
  context.team.run(shape.groups(), 1, [&](Range groups, int part) {
    attention_backward_groups<T>(shape, groups, qkv, rope.cosines(0), rope.sines(0), mixed, lse,
                                 dmixed, dqkv, scratch + part * scratch_of_a_thread(shape));
  });
}

#define TAPER_ATTENTION(T)                                                                 \
  template void attention_forward<T>(const OpContext&, const AttentionShape&, const T*,    \
                                     const RopeTable<Real<T>>&, T*, Real<T>*, Real<T>*);   \
  template void attention_backward<T>(const OpContext&, const AttentionShape&, const T*,   \
                                      const RopeTable<Real<T>>&, const T*, const Real<T>*, \
                                      const T*, T*, Real<T>*);
TAPER_ATTENTION(float)
TAPER_ATTENTION(bf16)
TAPER_ATTENTION(double)
#undef TAPER_ATTENTION

}  // namespace taper
