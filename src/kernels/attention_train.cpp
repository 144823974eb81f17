#include "kernels/attention_train.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_train.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/attention_train-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace {  // several kernels use the same names

using attention::BlockForward;
using attention::Head;
using attention::HeadBackward;
using attention::kX;
using attention::kY;
using attention::Rotation;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;

// The usual head widths have code of their own where it pays.
template <typename R>
constexpr bool kSpecialised = std::same_as<R, float>&& HWY_TARGET <= HWY_AVX2;

HWY_INLINE int64_t padded_time(int64_t time) { return (time + kX - 1) / kX * kX; }

// Hands out pieces of the scratch memory, each a multiple of a cache line.
template <typename R>
class Pieces {
 public:
  explicit Pieces(R* at) : at_(at) {}
  R* take(int64_t count) {
    R* piece = at_;
    at_ += (count + 15) / 16 * 16;
    return piece;
  }

 private:
  R* at_;
};

template <typename R>
HWY_INLINE void negate(int64_t count, const R* from, R* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = -from[i];
}

template <typename R>
HWY_INLINE void fill_zero(R* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0;
}

// body(integral_constant K) with code of its own for the usual widths, K = 0 for any other.
template <typename R, class Body>
HWY_INLINE void with_width(int64_t width, const Body& body) {
  if constexpr (kSpecialised<R>) {
    switch (width) {
      case 4:
        return body(std::integral_constant<int, 4>());
      case 8:
        return body(std::integral_constant<int, 8>());
      case 16:
        return body(std::integral_constant<int, 16>());
      case 32:
        return body(std::integral_constant<int, 32>());
      case 64:
        return body(std::integral_constant<int, 64>());
      case 128:
        return body(std::integral_constant<int, 128>());
      default:
        break;
    }
  }
  body(std::integral_constant<int, 0>());
}

// max over rows of |a|^2
template <typename R>
HWY_INLINE R max_square(int64_t rows, int64_t width, const R* a, R* squares) {
  attention::dot_rows(width, rows, a, Head<const R>{a, width}, squares);
  R max = 0;
  for (int64_t i = 0; i < rows; ++i) max = squares[i] <= max ? max : squares[i];  // keeps NaN
  return max;
}

// lse = shift + log2(sum), and sums and results become inverses and means.
template <typename R>
HWY_INLINE void finish_block(const BlockForward<R>& b) {
  const hn::ScalableTag<R> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t y = 0; y < kY<R>; y += lanes) {
    const auto sum = hn::LoadU(d, b.sum + y);
    const auto lse = hn::Add(hn::LoadU(d, b.shift + y), hn::Log2(d, sum));
    hn::StoreU(lse, d, b.shift + y);
    const auto inverse = hn::Div(hn::Set(d, R{1}), sum);
    for (int64_t k = 0; k < b.width; ++k) {
      R* at = b.out + k * kY<R> + y;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), inverse), d, at);
    }
  }
}

template <typename T>
HWY_INLINE void forward_group(const AttentionShape& shape, int64_t group, const T* qkv,
                              const Rotation<Real<T>>& rotation, T* out, Real<T>* lse,
                              Real<T>* scratch) {
  using R = Real<T>;
  const int64_t width = shape.head_width, time = shape.time;
  const int64_t b = group / shape.num_kv_heads, kv = group % shape.num_kv_heads;
  const int64_t per_group = shape.num_heads / shape.num_kv_heads;
  const T* sequence = qkv + b * time * shape.row();
  const auto head = [&](int64_t index) HWY_ATTR {
    return Head<const T>{sequence + index * width, shape.row()};
  };
  Pieces<R> pieces(scratch);
  R* keys = pieces.take(time * width);
  R* values = pieces.take(time * width);
  R* rows = pieces.take(width * kY<R>);
  R* qt = pieces.take(width * kY<R>);
  R* result = pieces.take(width * kY<R>);
  R* tile = pieces.take(kX * kY<R>);
  R* shift = pieces.take(kY<R>);
  R* sum = pieces.take(kY<R>);
  R* squares = pieces.take(time);
  attention::rotate_rows<false>(rotation, 0, time, R{1}, head(shape.num_heads + kv),
                                Head<R>{keys, width});
  attention::copy_rows<R>(width, 0, time, head(shape.num_heads + shape.num_kv_heads + kv),
                          Head<R>{values, width});
  const R scale = static_cast<R>(kLog2E / std::sqrt(static_cast<double>(width)));
  const R key_square = max_square(time, width, keys, squares);
  for (int64_t h = kv * per_group; h < (kv + 1) * per_group; ++h) {
    for (int64_t i0 = 0; i0 < time; i0 += kY<R>) {
      const int64_t count = std::min(kY<R>, time - i0);
      attention::rotate_rows<false>(rotation, i0, count, scale, head(h).from(i0),
                                    Head<R>{rows, width});
      fill_zero(rows + count * width, (kY<R> - count) * width);
      attention::rows_to_blocks(kY<R>, width, kY<R>, rows, qt);
      const BlockForward<R> block{width,  i0,    i0 + count, qt,     keys,
                                  values, shift, sum,        result, tile};
      // No score exceeds |q| |k|.
      const R bound = std::sqrt(key_square * max_square(count, width, rows, squares));
      const bool unshifted = bound <= attention::kMaxUnshifted;
      if (unshifted) fill_zero(shift, kY<R>);
      with_width<R>(width, [&](auto kWidth) HWY_ATTR {
        if (!unshifted) attention::score_maxima<kWidth.value>(block);
        attention::forward_block<kWidth.value>(block);
      });
      finish_block(block);
      attention::blocks_to_rows(kY<R>, width, kY<R>, result, rows);
      std::copy_n(shift, count, lse + (b * shape.num_heads + h) * time + i0);
      T* to = out + ((b * time + i0) * shape.num_heads + h) * width;
      attention::copy_rows<R>(width, 0, count, Head<const R>{rows, width},
                              Head<T>{to, shape.num_heads * width});
    }
  }
}

template <typename T>
HWY_INLINE void backward_group(const AttentionShape& shape, int64_t group, const T* qkv,
                               const Rotation<Real<T>>& rotation, const T* out, const Real<T>* lse,
                               const T* dout, T* dqkv, Real<T>* scratch) {
  using R = Real<T>;
  const int64_t width = shape.head_width, time = shape.time;
  const int64_t b = group / shape.num_kv_heads, kv = group % shape.num_kv_heads;
  const int64_t per_group = shape.num_heads / shape.num_kv_heads;
  const int64_t size = padded_time(time) * width;
  const auto head = [&](auto* data, int64_t index) HWY_ATTR {
    return Head<std::remove_pointer_t<decltype(data)>>{
        data + b * time * shape.row() + index * width, shape.row()};
  };
  const auto out_head = [&](const T* data, int64_t index) HWY_ATTR {
    return Head<const T>{data + (b * time * shape.num_heads + index) * width,
                         shape.num_heads * width};
  };
  const int64_t key_head = shape.num_heads + kv;
  const int64_t value_head = key_head + shape.num_kv_heads;

  Pieces<R> pieces(scratch);
  R* keys = pieces.take(size);
  R* keys_t = pieces.take(size);
  R* values_t = pieces.take(size);
  R* dkeys_t = pieces.take(size);
  R* dvalues_t = pieces.take(size);
  R* queries = pieces.take(size);
  R* dout_packed = pieces.take(size);
  R* dqueries_t = pieces.take(size);
  R* minus_lse = pieces.take(time);
  R* minus_delta = pieces.take(time);
  HeadBackward<R> work{};
  work.p = pieces.take(kX * kY<R>);
  work.ds = pieces.take(kX * kY<R>);
  work.ds_t = pieces.take(kX * kY<R>);

  const int64_t padded = padded_time(time);
  const auto to_rows = [&](R* rows) HWY_ATTR { return Head<R>{rows, width}; };
  for (R* rows : {keys, queries}) fill_zero(rows + time * width, (padded - time) * width);
  attention::copy_rows<R>(width, 0, time, head(qkv, value_head), to_rows(keys));
  attention::rows_to_blocks(padded, width, kY<R>, keys, values_t);
  attention::rotate_rows<false>(rotation, 0, time, R{1}, head(qkv, key_head), to_rows(keys));
  attention::rows_to_blocks(padded, width, kY<R>, keys, keys_t);
  fill_zero(dkeys_t, size);
  fill_zero(dvalues_t, size);
  const double root = std::sqrt(static_cast<double>(width));
  for (int64_t h = kv * per_group; h < (kv + 1) * per_group; ++h) {
    attention::rotate_rows<false>(rotation, 0, time, static_cast<R>(kLog2E / root), head(qkv, h),
                                  to_rows(queries));
    attention::copy_rows<R>(width, 0, time, out_head(dout, h), to_rows(dout_packed));
    attention::dot_rows(width, time, dout_packed, out_head(out, h), minus_delta);
    negate(time, minus_delta, minus_delta);
    negate(time, lse + (b * shape.num_heads + h) * time, minus_lse);
    fill_zero(dqueries_t, size);
    work.width = width;
    work.time = time;
    work.queries = queries;
    work.dout = dout_packed;
    work.minus_lse = minus_lse;
    work.minus_delta = minus_delta;
    work.keys = keys;
    work.keys_t = keys_t;
    work.values_t = values_t;
    work.dkeys_t = dkeys_t;
    work.dvalues_t = dvalues_t;
    work.dqueries_t = dqueries_t;
    with_width<R>(width,
                  [&](auto kWidth) HWY_ATTR { attention::backward_head<kWidth.value>(work); });
    attention::blocks_to_rows(padded, width, kX, dqueries_t, queries);
    attention::rotate_rows<true>(rotation, 0, time, static_cast<R>(1 / root),
                                 Head<const R>{queries, width}, head(dqkv, h));
  }
  attention::blocks_to_rows(padded, width, kY<R>, dkeys_t, queries);
  attention::rotate_rows<true>(rotation, 0, time, static_cast<R>(kLn2),
                               Head<const R>{queries, width}, head(dqkv, key_head));
  attention::blocks_to_rows(padded, width, kY<R>, dvalues_t, queries);
  attention::copy_rows<R>(width, 0, time, Head<const R>{queries, width}, head(dqkv, value_head));
}

// Dispatch needs plain functions: one set a storage type.
#define TAPER_ATTENTION_KERNELS(Name, T)                                                 \
  void Forward##Name(const AttentionShape& shape, Range groups, const T* qkv,            \
                     const Real<T>* cosines, const Real<T>* sines, T* out, Real<T>* lse, \
                     Real<T>* scratch) {                                                 \
    const Rotation<Real<T>> rotation{cosines, sines, shape.head_width};                  \
    for (int64_t group = groups.begin; group < groups.end; ++group)                      \
      forward_group<T>(shape, group, qkv, rotation, out, lse, scratch);                  \
  }                                                                                      \
  void Backward##Name(const AttentionShape& shape, Range groups, const T* qkv,           \
                      const Real<T>* cosines, const Real<T>* sines, const T* out,        \
                      const Real<T>* lse, const T* dout, T* dqkv, Real<T>* scratch) {    \
    const Rotation<Real<T>> rotation{cosines, sines, shape.head_width};                  \
    for (int64_t group = groups.begin; group < groups.end; ++group)                      \
      backward_group<T>(shape, group, qkv, rotation, out, lse, dout, dqkv, scratch);     \
  }
TAPER_ATTENTION_KERNELS(F32, float)
TAPER_ATTENTION_KERNELS(BF16, bf16)
#if HWY_TARGET == HWY_STATIC_TARGET  // doubles are the reference: one code is enough
TAPER_ATTENTION_KERNELS(F64, double)
#endif
#undef TAPER_ATTENTION_KERNELS

}  // namespace
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

namespace {
// The widest vectors of any target: 16 floats, two of them a row of a tile.
constexpr int64_t kTileRows = 64, kTileColumns = 32, kLine = 16;
}  // namespace

int64_t attention_forward_scratch(const AttentionShape& shape) {
  const int64_t packed = 2 * (shape.time * shape.head_width + kLine);
  const int64_t block = 3 * kTileColumns * shape.head_width + 2 * kTileColumns;
  return packed + block + kTileRows * kTileColumns + shape.time + kTileColumns + 8 * kLine;
}

int64_t attention_backward_scratch(const AttentionShape& shape) {
  const int64_t padded = (shape.time + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t packed = 8 * (padded * shape.head_width + kLine);
  return packed + 2 * padded + 3 * kTileRows * kTileColumns + 6 * kLine;
}

#define TAPER_ATTENTION_DISPATCH(Name, T, DISPATCH)                                             \
  template <>                                                                                   \
  void attention_forward_groups<T>(const AttentionShape& shape, Range groups, const T* qkv,     \
                                   const Real<T>* cosines, const Real<T>* sines, T* out,        \
                                   Real<T>* lse, Real<T>* scratch) {                            \
    DISPATCH(Forward##Name)(shape, groups, qkv, cosines, sines, out, lse, scratch);             \
  }                                                                                             \
  template <>                                                                                   \
  void attention_backward_groups<T>(const AttentionShape& shape, Range groups, const T* qkv,    \
                                    const Real<T>* cosines, const Real<T>* sines, const T* out, \
                                    const Real<T>* lse, const T* dout, T* dqkv,                 \
                                    Real<T>* scratch) {                                         \
    DISPATCH(Backward##Name)                                                                    \
    (shape, groups, qkv, cosines, sines, out, lse, dout, dqkv, scratch);                        \
  }
HWY_EXPORT(ForwardF32);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(ForwardBF16);
HWY_EXPORT(BackwardBF16);
TAPER_ATTENTION_DISPATCH(F32, float, HWY_DYNAMIC_DISPATCH)
TAPER_ATTENTION_DISPATCH(BF16, bf16, HWY_DYNAMIC_DISPATCH)
TAPER_ATTENTION_DISPATCH(F64, double, HWY_STATIC_DISPATCH)
#undef TAPER_ATTENTION_DISPATCH

}  // namespace taper
#endif
