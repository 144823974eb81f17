#include "kernels/attention_train.h"

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

using attention::HeadBackward;
using attention::kX;
using attention::kY;

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLn2 = 0.69314718055994530942;

// Small head widths have code of their own where it pays.
template <typename R>
constexpr bool kSpecialised = std::same_as<R, float>&& HWY_TARGET <= HWY_AVX2;

HWY_INLINE int64_t padded_time(int64_t time) { return (time + kX - 1) / kX * kX; }

template <typename R>
HWY_INLINE R to_real(R x) {
  return x;
}
HWY_INLINE float to_real(bf16 x) { return to_float(x); }

HWY_INLINE void from_real(float x, float* to) { *to = x; }
HWY_INLINE void from_real(double x, double* to) { *to = x; }
HWY_INLINE void from_real(float x, bf16* to) { *to = to_bf16(x); }

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

// One head of one sequence inside qkv or out: row t is at data + t * stride.
template <typename T>
struct Head {
  T* data;
  int64_t stride;
  T* row(int64_t t) const { return data + t * stride; }
};

template <typename R>
struct Rotation {
  const R* cosines;  // [T, K/2]
  const R* sines;
  int64_t width;
};

// to = scale * rot(from), or its transpose (the gradient) when kInverse.
template <bool kInverse, typename A, typename B, typename R>
HWY_INLINE void rotate(const Rotation<R>& rotation, int64_t t, R scale, const A* from, B* to) {
  const int64_t half = rotation.width / 2;
  const R* c = rotation.cosines + t * half;
  const R* s = rotation.sines + t * half;
  for (int64_t i = 0; i < half; ++i) {
    const R a = to_real(from[i]), b = to_real(from[i + half]);
    const R sine = kInverse ? -s[i] : s[i];
    from_real(scale * (a * c[i] - b * sine), to + i);
    from_real(scale * (b * c[i] + a * sine), to + i + half);
  }
}

template <typename T, typename R>
HWY_INLINE void pack_rotated(const Rotation<R>& rotation, int64_t time, R scale, Head<const T> head,
                             R* packed) {
  for (int64_t t = 0; t < time; ++t) {
    rotate<false>(rotation, t, scale, head.row(t), packed + t * rotation.width);
  }
}

template <typename T, typename R>
HWY_INLINE void pack(int64_t time, int64_t width, Head<const T> head, R* packed) {
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t k = 0; k < width; ++k) packed[t * width + k] = to_real(head.row(t)[k]);
  }
}

// [T, K] to blocks of Y rows, each [K, Y]; rows past the end are 0.
template <typename R>
HWY_INLINE void to_blocks(int64_t time, int64_t width, const R* packed, R* blocks) {
  const int64_t padded = (time + kY<R> - 1) / kY<R> * kY<R>;
  for (int64_t t = 0; t < padded; ++t) {
    R* block = blocks + t / kY<R> * kY<R> * width + t % kY<R>;
    for (int64_t k = 0; k < width; ++k) block[k * kY<R>] = t < time ? packed[t * width + k] : 0;
  }
}

// The column of row t in blocks of `size` rows, gathered: [K].
template <typename R>
HWY_INLINE void block_row(int64_t t, int64_t width, int64_t size, const R* blocks, R* row) {
  const R* block = blocks + t / size * size * width + t % size;
  for (int64_t k = 0; k < width; ++k) row[k] = block[k * size];
}

template <typename R>
HWY_INLINE void forward_rows(int64_t width, int64_t time, int64_t i0, const R* qt, const R* keys,
                             const R* values, R* tile, R* max, R* sum, R* out) {
  using attention::forward_block;
  if constexpr (kSpecialised<R>) {
    if (width == 4) return forward_block<4>(width, time, i0, qt, keys, values, tile, max, sum, out);
    if (width == 8) return forward_block<8>(width, time, i0, qt, keys, values, tile, max, sum, out);
  }
  forward_block<0>(width, time, i0, qt, keys, values, tile, max, sum, out);
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
  R* query = pieces.take(width);
  R* qt = pieces.take(width * kY<R>);
  R* result = pieces.take(width * kY<R>);
  R* tile = pieces.take(kX * kY<R>);
  R* max = pieces.take(kY<R>);
  R* sum = pieces.take(kY<R>);
  pack_rotated(rotation, time, R{1}, head(shape.num_heads + kv), keys);
  pack(time, width, head(shape.num_heads + shape.num_kv_heads + kv), values);
  const R scale = static_cast<R>(kLog2E / std::sqrt(static_cast<double>(width)));
  for (int64_t h = kv * per_group; h < (kv + 1) * per_group; ++h) {
    for (int64_t i0 = 0; i0 < time; i0 += kY<R>) {
      const int64_t count = std::min(kY<R>, time - i0);
      for (int64_t i = 0; i < kY<R>; ++i) {
        if (i < count) rotate<false>(rotation, i0 + i, scale, head(h).row(i0 + i), query);
        for (int64_t k = 0; k < width; ++k) qt[k * kY<R> + i] = i < count ? query[k] : 0;
      }
      forward_rows(width, time, i0, qt, keys, values, tile, max, sum, result);
      for (int64_t i = 0; i < count; ++i) {
        T* to = out + ((b * time + i0 + i) * shape.num_heads + h) * width;
        const R inverse = 1 / sum[i];
        for (int64_t k = 0; k < width; ++k) from_real(result[k * kY<R> + i] * inverse, to + k);
        lse[(b * shape.num_heads + h) * time + i0 + i] = max[i] + std::log2(sum[i]);
      }
    }
  }
}

template <typename R>
HWY_INLINE void backward_one(const HeadBackward<R>& head) {
  if constexpr (kSpecialised<R>) {
    if (head.width == 4) return attention::backward_head<4>(head);
    if (head.width == 8) return attention::backward_head<8>(head);
  }
  attention::backward_head<0>(head);
}

template <typename R>
HWY_INLINE void fill_zero(R* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0;
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
  R* delta = pieces.take(time);
  R* row = pieces.take(width);
  HeadBackward<R> work{};
  work.p = pieces.take(kX * kY<R>);
  work.ds = pieces.take(kX * kY<R>);
  work.ds_t = pieces.take(kX * kY<R>);

  pack(time, width, head(qkv, value_head), keys);  // as a step towards values_t
  to_blocks(time, width, keys, values_t);
  pack_rotated(rotation, time, R{1}, head(qkv, key_head), keys);
  to_blocks(time, width, keys, keys_t);
  fill_zero(dkeys_t, size);
  fill_zero(dvalues_t, size);
  const double root = std::sqrt(static_cast<double>(width));
  for (int64_t h = kv * per_group; h < (kv + 1) * per_group; ++h) {
    pack_rotated(rotation, time, static_cast<R>(kLog2E / root), head(qkv, h), queries);
    pack(time, width, out_head(dout, h), dout_packed);
    fill_zero(dqueries_t, size);
    const Head<const T> result = out_head(out, h);
    for (int64_t t = 0; t < time; ++t) {
      R dot = 0;
      for (int64_t k = 0; k < width; ++k) {
        dot += dout_packed[t * width + k] * to_real(result.row(t)[k]);
      }
      delta[t] = dot;
    }
    work.width = width;
    work.time = time;
    work.queries = queries;
    work.dout = dout_packed;
    work.lse = lse + (b * shape.num_heads + h) * time;
    work.delta = delta;
    work.keys = keys;
    work.keys_t = keys_t;
    work.values_t = values_t;
    work.dkeys_t = dkeys_t;
    work.dvalues_t = dvalues_t;
    work.dqueries_t = dqueries_t;
    backward_one(work);
    const Head<T> dquery = head(dqkv, h);
    for (int64_t t = 0; t < time; ++t) {
      block_row(t, width, kX, dqueries_t, row);
      rotate<true>(rotation, t, static_cast<R>(1 / root), row, dquery.row(t));
    }
  }
  const Head<T> dkey = head(dqkv, key_head), dvalue = head(dqkv, value_head);
  for (int64_t t = 0; t < time; ++t) {
    block_row(t, width, kY<R>, dkeys_t, row);
    rotate<true>(rotation, t, static_cast<R>(kLn2), row, dkey.row(t));
    block_row(t, width, kY<R>, dvalues_t, row);
    for (int64_t k = 0; k < width; ++k) from_real(row[k], dvalue.row(t) + k);
  }
}

// Dispatch needs plain functions: one set a storage type.
#define TAPER_ATTENTION_KERNELS(Name, T)                                                 \
  void Forward##Name(const AttentionShape& shape, RowRange groups, const T* qkv,         \
                     const Real<T>* cosines, const Real<T>* sines, T* out, Real<T>* lse, \
                     Real<T>* scratch) {                                                 \
    const Rotation<Real<T>> rotation{cosines, sines, shape.head_width};                  \
    for (int64_t group = groups.begin; group < groups.end; ++group) {                    \
      forward_group<T>(shape, group, qkv, rotation, out, lse, scratch);                  \
    }                                                                                    \
  }                                                                                      \
  void Backward##Name(const AttentionShape& shape, RowRange groups, const T* qkv,        \
                      const Real<T>* cosines, const Real<T>* sines, const T* out,        \
                      const Real<T>* lse, const T* dout, T* dqkv, Real<T>* scratch) {    \
    const Rotation<Real<T>> rotation{cosines, sines, shape.head_width};                  \
    for (int64_t group = groups.begin; group < groups.end; ++group) {                    \
      backward_group<T>(shape, group, qkv, rotation, out, lse, dout, dqkv, scratch);     \
    }                                                                                    \
  }
TAPER_ATTENTION_KERNELS(F32, float)
TAPER_ATTENTION_KERNELS(BF16, bf16)
TAPER_ATTENTION_KERNELS(F64, double)
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
  const int64_t block = (2 * kTileColumns + 1) * shape.head_width + 2 * kTileColumns;
  return packed + block + kTileRows * kTileColumns + 6 * kLine;
}

int64_t attention_backward_scratch(const AttentionShape& shape) {
  const int64_t padded = (shape.time + kTileRows - 1) / kTileRows * kTileRows;
  const int64_t packed = 8 * (padded * shape.head_width + kLine);
  return packed + padded + shape.head_width + 3 * kTileRows * kTileColumns + 6 * kLine;
}

#define TAPER_ATTENTION_DISPATCH(Name, T)                                                       \
  HWY_EXPORT(Forward##Name);                                                                    \
  HWY_EXPORT(Backward##Name);                                                                   \
  template <>                                                                                   \
  void attention_forward<T>(const AttentionShape& shape, RowRange groups, const T* qkv,         \
                            const Real<T>* cosines, const Real<T>* sines, T* out, Real<T>* lse, \
                            Real<T>* scratch) {                                                 \
    HWY_DYNAMIC_DISPATCH(Forward##Name)(shape, groups, qkv, cosines, sines, out, lse, scratch); \
  }                                                                                             \
  template <>                                                                                   \
  void attention_backward<T>(const AttentionShape& shape, RowRange groups, const T* qkv,        \
                             const Real<T>* cosines, const Real<T>* sines, const T* out,        \
                             const Real<T>* lse, const T* dout, T* dqkv, Real<T>* scratch) {    \
    HWY_DYNAMIC_DISPATCH(Backward##Name)                                                        \
    (shape, groups, qkv, cosines, sines, out, lse, dout, dqkv, scratch);                        \
  }
TAPER_ATTENTION_DISPATCH(F32, float)
TAPER_ATTENTION_DISPATCH(BF16, bf16)
TAPER_ATTENTION_DISPATCH(F64, double)
#undef TAPER_ATTENTION_DISPATCH

}  // namespace taper
#endif
