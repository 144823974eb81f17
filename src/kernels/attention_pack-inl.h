// How attention_train.cpp brings heads into the layout of its inner loops and back: rotation, rows
// of one head side by side, and blocks with tokens along the lanes.

// Highway's include guard: the file is read again for each target.
#if defined(TAPER_KERNELS_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPER_KERNELS_ATTENTION_PACK_INL_H_
#undef TAPER_KERNELS_ATTENTION_PACK_INL_H_
#else
#define TAPER_KERNELS_ATTENTION_PACK_INL_H_
#endif

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace attention {

// Rows of one head: row t is at data + t * stride.
template <typename T>
struct Head {
  T* data;
  int64_t stride;
  T* row(int64_t t) const { return data + t * stride; }
  Head from(int64_t t) const { return {row(t), stride}; }  // without the tokens before t
};

template <typename R>
struct Rotation {
  const R* cosines;  // [T, K/2]
  const R* sines;
  int64_t width;  // K
};

// body(d): the widest vectors that divide `count`. Doubles are for tests: one code is enough.
template <typename R, class Body>
HWY_INLINE void with_lanes(int64_t count, const Body& body) {
  if constexpr (sizeof(R) == 4) {
    if (count % 16 == 0) return body(hn::CappedTag<R, 16>());
    if (count % 8 == 0) return body(hn::CappedTag<R, 8>());
    if (count % 4 == 0) return body(hn::CappedTag<R, 4>());
    if (count % 2 == 0) return body(hn::CappedTag<R, 2>());
  }
  body(hn::CappedTag<R, 1>());
}

// to[t] = scale * rot(from[t]) for `count` tokens, the first of which stands at `position`; or the
// transpose (the gradient) when kInverse.
template <bool kInverse, typename A, typename B, typename R>
HWY_INLINE void rotate_rows(const Rotation<R>& rotation, int64_t position, int64_t count, R scale,
                            Head<const A> from, Head<B> to) {
  const int64_t half = rotation.width / 2;
  with_lanes<R>(half, [&](auto d) HWY_ATTR {
    const auto factor = hn::Set(d, scale);
    for (int64_t t = 0; t < count; ++t) {
      const A* in = from.row(t);
      B* out = to.row(t);
      for (int64_t i = 0; i < half; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto a = hn::Mul(load(d, in + i), factor);
        const auto b = hn::Mul(load(d, in + i + half), factor);
        const auto c = load(d, rotation.cosines + (position + t) * half + i);
        auto s = load(d, rotation.sines + (position + t) * half + i);
        if constexpr (kInverse) s = hn::Neg(s);
        store(d, hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i);
        store(d, hn::MulAdd(a, s, hn::Mul(b, c)), out + i + half);
      }
    }
  });
}

// to[t] = from[t] for tokens [begin, end).
template <typename R, typename A, typename B>
HWY_INLINE void copy_rows(int64_t width, int64_t begin, int64_t end, Head<const A> from,
                          Head<B> to) {
  with_lanes<R>(
      width,
      [&](auto d) HWY_ATTR {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t k = 0; k < width; k += static_cast<int64_t>(hn::Lanes(d)))
            store(d, load(d, from.row(t) + k), to.row(t) + k);
      });
}

// dots[t] = <a[t], b[t]>
template <typename R, typename B>
HWY_INLINE void dot_rows(int64_t width, int64_t time, const R* a, Head<const B> b, R* dots) {
  with_lanes<R>(
      width,
      [&](auto d) HWY_ATTR {
        for (int64_t t = 0; t < time; ++t) {
          auto sum = hn::Zero(d);
          for (int64_t k = 0; k < width; k += static_cast<int64_t>(hn::Lanes(d)))
            sum = hn::MulAdd(load(d, a + t * width + k), load(d, b.row(t) + k), sum);
          dots[t] = hn::GetLane(hn::SumOfLanes(d, sum));
        }
      });
}

// Rounds of a transposition, each sorting by one more bit of the lane. Unrolled in full: otherwise
// the rows live on the stack.
template <int kBit, class D, int kCount>
HWY_INLINE void sort_lanes([[maybe_unused]] D d, [[maybe_unused]] hn::Vec<D> (&v)[kCount]) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kBit < kCount) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount / 2; ++i) {
      const int r = i / kBit * 2 * kBit + i % kBit;  // the rows without the bit
      const auto even = hn::ConcatEven(d, v[r + kBit], v[r]);
      v[r + kBit] = hn::ConcatOdd(d, v[r + kBit], v[r]);
      v[r] = even;
    }
    sort_lanes<2 * kBit>(d, v);
  }
#endif
}

// to[y, x] = from[x, y], one square of as many rows as d has lanes.
template <class D, typename R>
HWY_INLINE void transpose_square(D d, const R* from, int64_t from_stride, R* to,
                                 int64_t to_stride) {
  constexpr int kCount = static_cast<int>(hn::MaxLanes(D()));
  hn::Vec<D> v[kCount];
  for (int r = 0; r < kCount; ++r) v[r] = hn::LoadU(d, from + r * from_stride);
  sort_lanes<1>(d, v);
  for (int r = 0; r < kCount; ++r) hn::StoreU(v[r], d, to + r * to_stride);
}

// Between rows [tokens, K] and blocks [tokens / size][K, size]; tokens a multiple of size, size
// of 16.
template <bool kToBlocks, typename R>
HWY_INLINE void reorder(int64_t tokens, int64_t width, int64_t size, const R* from, R* to) {
  with_lanes<R>(
      width,
      [&](auto d) HWY_ATTR {
        const int64_t n = static_cast<int64_t>(hn::Lanes(d));
        for (int64_t t = 0; t < tokens; t += n) {
          for (int64_t k = 0; k < width; k += n) {
            const int64_t row = t * width + k;
            const int64_t block = t / size * size * width + k * size + t % size;
            if constexpr (kToBlocks)
              transpose_square(d, from + row, width, to + block, size);
            else
              transpose_square(d, from + block, size, to + row, width);
          }
        }
      });
}

template <typename R>
HWY_INLINE void rows_to_blocks(int64_t tokens, int64_t width, int64_t size, const R* rows,
                               R* blocks) {
  reorder<true>(tokens, width, size, rows, blocks);
}
template <typename R>
HWY_INLINE void blocks_to_rows(int64_t tokens, int64_t width, int64_t size, const R* blocks,
                               R* rows) {
  reorder<false>(tokens, width, size, blocks, rows);
}

}  // namespace attention
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
