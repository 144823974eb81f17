// The inner loops of attention_train.cpp, on packed operands of one head.
//
// Everything is made of two products over a tile, with `y` along the lanes (two vectors: Y values)
// and x down the rows of the tile:
//   product:    tile[x, y] = sum over k of a[x, k] bt[k, y]
//   accumulate: out[k, y] += sum over x of a[x, k] tile[x, y]
// so lanes are never wasted, whatever the head width K. Forward puts queries on the lanes and walks
// over keys, with a running maximum; backward puts keys on the lanes, walks over queries, and turns
// the tile of score gradients around for the query gradients. Scores are in units of log 2: p =
// 2^(s - lse).

// Highway's include guard: the file is read again for each target.
#if defined(TAPER_KERNELS_ATTENTION_TRAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#undef TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#else
#define TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#endif

#include <algorithm>

#include "kernels/attention_pack-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
namespace attention {

constexpr int64_t kX = 64;  // rows of a tile; a multiple of Y on every target

template <typename R>
using Tag = hn::ScalableTag<R>;
template <typename R>
using Vector = hn::Vec<Tag<R>>;
template <typename R>
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag<R>()));
template <typename R>
constexpr int64_t kY = 2 * kLanes<R>;

// Rows of a tile computed together: as many accumulators as registers hold.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 8;
#else
constexpr int kRows = 4;
#endif

// emit(x, low, high) for rows [begin, end) of the product; kWidth 0: K is `width`.
template <int kCount, int kWidth, typename R, class Emit>
HWY_INLINE void product_rows(int64_t width, int64_t x, const R* HWY_RESTRICT a,
                             const R* HWY_RESTRICT bt, const Emit& emit) {
  const Tag<R> d;
  const int64_t k_end = kWidth ? kWidth : width;
  Vector<R> low[kCount], high[kCount];
  for (int r = 0; r < kCount; ++r) low[r] = high[r] = hn::Zero(d);
  for (int64_t k = 0; k < k_end; ++k) {
    const auto b0 = hn::LoadU(d, bt + k * kY<R>);
    const auto b1 = hn::LoadU(d, bt + k * kY<R> + kLanes<R>);
    for (int r = 0; r < kCount; ++r) {
      const auto v = hn::Set(d, a[(x + r) * k_end + k]);
      low[r] = hn::MulAdd(v, b0, low[r]);
      high[r] = hn::MulAdd(v, b1, high[r]);
    }
  }
  for (int r = 0; r < kCount; ++r) emit(x + r, low[r], high[r]);
}

template <int kWidth, typename R, class Emit>
HWY_INLINE void product(int64_t width, int64_t begin, int64_t end, const R* a, const R* bt,
                        const Emit& emit) {
  int64_t x = begin;
  for (; x + kRows <= end; x += kRows) product_rows<kRows, kWidth>(width, x, a, bt, emit);
  for (; x < end; ++x) product_rows<1, kWidth>(width, x, a, bt, emit);
}

// Rows [begin, end) of a [x, K] and of a tile with rows `stride` apart; out has rows `stride` apart
// too.
template <int kCount, int kWidth, typename R>
HWY_INLINE void accumulate_columns(int64_t width, int64_t k, int64_t begin, int64_t end,
                                   int64_t stride, const R* HWY_RESTRICT a,
                                   const R* HWY_RESTRICT tile, R* HWY_RESTRICT out) {
  const Tag<R> d;
  const int64_t row = kWidth ? kWidth : width;
  Vector<R> low[kCount], high[kCount];
  for (int r = 0; r < kCount; ++r) {
    low[r] = hn::LoadU(d, out + (k + r) * stride);
    high[r] = hn::LoadU(d, out + (k + r) * stride + kLanes<R>);
  }
  for (int64_t x = begin; x < end; ++x) {
    const auto t0 = hn::LoadU(d, tile + x * stride);
    const auto t1 = hn::LoadU(d, tile + x * stride + kLanes<R>);
    for (int r = 0; r < kCount; ++r) {
      const auto v = hn::Set(d, a[x * row + k + r]);
      low[r] = hn::MulAdd(v, t0, low[r]);
      high[r] = hn::MulAdd(v, t1, high[r]);
    }
  }
  for (int r = 0; r < kCount; ++r) {
    hn::StoreU(low[r], d, out + (k + r) * stride);
    hn::StoreU(high[r], d, out + (k + r) * stride + kLanes<R>);
  }
}

template <int kWidth, typename R>
HWY_INLINE void accumulate(int64_t width, int64_t begin, int64_t end, int64_t stride, const R* a,
                           const R* tile, R* out) {
  const int64_t k_end = kWidth ? kWidth : width;
  int64_t k = 0;
  for (; k + kRows <= k_end; k += kRows) {
    accumulate_columns<kRows, kWidth>(width, k, begin, end, stride, a, tile, out);
  }
  for (; k + 4 <= k_end; k += 4) {
    accumulate_columns<4, kWidth>(width, k, begin, end, stride, a, tile, out);
  }
  for (; k + 2 <= k_end; k += 2) {
    accumulate_columns<2, kWidth>(width, k, begin, end, stride, a, tile, out);
  }
}

// The first `count` lanes (clamped to the vector) of part `half` of a row of Y.
template <typename R>
HWY_INLINE auto first_lanes(int64_t count, int64_t half) {
  const int64_t left = count - half * kLanes<R>;
  return hn::FirstN(Tag<R>(), static_cast<size_t>(std::clamp<int64_t>(left, 0, kLanes<R>)));
}

// Scores of one tile against the running maximum: tile becomes p = 2^(s - max), `sum` and `out` are
// rescaled to the new maximum. Rows from `diagonal` on see only lanes from (x - diagonal) on.
template <int kWidth, typename R>
HWY_INLINE void softmax_tile(int64_t width, int64_t rows, int64_t diagonal, bool first, R* tile,
                             R* max, R* sum, R* out) {
  const Tag<R> d;
  const auto masked = hn::Set(d, static_cast<R>(-1e30));
  const int64_t full = std::min(rows, diagonal + 1);  // row `diagonal` itself is whole
  for (int64_t x = std::max<int64_t>(full, 0); x < rows; ++x) {
    for (int64_t half = 0; half < 2; ++half) {
      R* at = tile + x * kY<R> + half * kLanes<R>;
      const auto hidden = first_lanes<R>(x - diagonal, half);
      hn::StoreU(hn::IfThenElse(hidden, masked, hn::LoadU(d, at)), d, at);
    }
  }
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t lane = half * kLanes<R>;
    const auto before = hn::LoadU(d, max + lane);
    auto m0 = before, m1 = before;
    int64_t x = 0;
    for (; x + 2 <= rows; x += 2) {
      m0 = hn::Max(m0, hn::LoadU(d, tile + x * kY<R> + lane));
      m1 = hn::Max(m1, hn::LoadU(d, tile + (x + 1) * kY<R> + lane));
    }
    if (x < rows) m0 = hn::Max(m0, hn::LoadU(d, tile + x * kY<R> + lane));
    const auto m = hn::Max(m0, m1);
    hn::StoreU(m, d, max + lane);
    auto s0 = hn::Zero(d), s1 = hn::Zero(d);
    for (x = 0; x + 2 <= full; x += 2) {
      const auto p0 = exp2(d, hn::Sub(hn::LoadU(d, tile + x * kY<R> + lane), m));
      const auto p1 = exp2(d, hn::Sub(hn::LoadU(d, tile + (x + 1) * kY<R> + lane), m));
      s0 = hn::Add(s0, p0);
      s1 = hn::Add(s1, p1);
      hn::StoreU(p0, d, tile + x * kY<R> + lane);
      hn::StoreU(p1, d, tile + (x + 1) * kY<R> + lane);
    }
    for (; x < rows; ++x) {
      auto p = exp2(d, hn::Sub(hn::LoadU(d, tile + x * kY<R> + lane), m));
      if (x > diagonal) p = hn::IfThenZeroElse(first_lanes<R>(x - diagonal, half), p);
      s0 = hn::Add(s0, p);
      hn::StoreU(p, d, tile + x * kY<R> + lane);
    }
    const auto here = hn::Add(s0, s1);
    if (first) {
      hn::StoreU(here, d, sum + lane);
    } else {
      const auto shrink = exp2(d, hn::Sub(before, m));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + lane), shrink, here), d, sum + lane);
      const int64_t k_end = kWidth ? kWidth : width;
      for (int64_t k = 0; k < k_end; ++k) {
        R* at = out + k * kY<R> + lane;
        hn::StoreU(hn::Mul(hn::LoadU(d, at), shrink), d, at);
      }
    }
  }
}

// Queries [i0, i0 + Y) of one head: qt [K, Y] scaled by log2 e / sqrt(K), k and v [T, K].
// out [K, Y] is the unnormalised result, beside the maximum and the sum [Y].
template <int kWidth, typename R>
HWY_NOINLINE void forward_block(int64_t width, int64_t time, int64_t i0, const R* qt, const R* keys,
                                const R* values, R* tile, R* max, R* sum, R* out) {
  const Tag<R> d;
  const int64_t k_end = kWidth ? kWidth : width;
  for (int64_t i = 0; i < k_end * kY<R>; ++i) out[i] = 0;
  for (int64_t i = 0; i < kY<R>; ++i) max[i] = static_cast<R>(-1e30);
  const int64_t end = std::min(i0 + kY<R>, time);
  for (int64_t x0 = 0; x0 < end; x0 += kX) {
    const int64_t rows = std::min(kX, end - x0);
    product<kWidth>(width, 0, rows, keys + x0 * k_end, qt,
                    [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
                      hn::StoreU(low, d, tile + x * kY<R>);
                      hn::StoreU(high, d, tile + x * kY<R> + kLanes<R>);
                    });
    softmax_tile<kWidth>(width, rows, i0 - x0, x0 == 0, tile, max, sum, out);
    accumulate<kWidth>(width, 0, rows, kY<R>, values + x0 * k_end, tile, out);
  }
}

// What one head's backward pass reads and adds to. Blocks of keys are [T / Y][K, Y], of queries [T
// / X][K, X].
template <typename R>
struct HeadBackward {
  int64_t width, time;
  const R* queries;   // [T, K], rotated, scaled by log2 e / sqrt(K)
  const R* dout;      // [T, K]
  const R* lse;       // [T]
  const R* delta;     // [T], <dout, out>
  const R* keys;      // [T, K], rotated
  const R* keys_t;    // blocks of keys
  const R* values_t;  // blocks of keys
  R* dkeys_t;         // blocks of keys; d(score) times the scaled query
  R* dvalues_t;       // blocks of keys
  R* dqueries_t;      // blocks of queries; d(score) times the key
  R *p, *ds, *ds_t;   // tiles: [X, Y], [X, Y], [Y, X]
};

// Queries [x0 + begin, x0 + end) against keys [j0, j0 + Y).
template <int kWidth, typename R>
HWY_INLINE void backward_tile(const HeadBackward<R>& h, int64_t j0, int64_t x0, int64_t begin,
                              int64_t end) {
  const Tag<R> d;
  const int64_t width = kWidth ? kWidth : h.width;
  const R* queries = h.queries + x0 * width;
  const R* dout = h.dout + x0 * width;
  const R* lse = h.lse + x0;
  const R* delta = h.delta + x0;
  const auto probability = [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
    const auto l = hn::Set(d, lse[x]);
    hn::StoreU(exp2(d, hn::Sub(low, l)), d, h.p + x * kY<R>);
    hn::StoreU(exp2(d, hn::Sub(high, l)), d, h.p + x * kY<R> + kLanes<R>);
  };
  product<kWidth>(width, begin, end, queries, h.keys_t + j0 * width, probability);
  // Query i sees keys up to i: its first i - j0 + 1 lanes.
  const int64_t diagonal_end = std::min(end, j0 + kY<R> - 1 - x0);
  for (int64_t x = begin; x < diagonal_end; ++x) {
    for (int64_t half = 0; half < 2; ++half) {
      R* at = h.p + x * kY<R> + half * kLanes<R>;
      const auto seen = first_lanes<R>(x0 + x - j0 + 1, half);
      hn::StoreU(hn::IfThenElseZero(seen, hn::LoadU(d, at)), d, at);
    }
  }
  const auto score_gradient = [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
    const auto l = hn::Set(d, delta[x]);
    const R* p = h.p + x * kY<R>;
    hn::StoreU(hn::Mul(hn::LoadU(d, p), hn::Sub(low, l)), d, h.ds + x * kY<R>);
    hn::StoreU(hn::Mul(hn::LoadU(d, p + kLanes<R>), hn::Sub(high, l)), d,
               h.ds + x * kY<R> + kLanes<R>);
  };
  product<kWidth>(width, begin, end, dout, h.values_t + j0 * width, score_gradient);
  accumulate<kWidth>(width, begin, end, kY<R>, dout, h.p, h.dvalues_t + j0 * width);
  accumulate<kWidth>(width, begin, end, kY<R>, queries, h.ds, h.dkeys_t + j0 * width);

  const int64_t padded = (end + kY<R> - 1) / kY<R> * kY<R>;
  for (int64_t i = end * kY<R>; i < padded * kY<R>; ++i) h.ds[i] = 0;
  const int64_t keys = std::min(kY<R>, h.time - j0);
  for (int64_t x = begin; x < padded; x += kLanes<R>) {
    for (int64_t y = 0; y < kY<R>; y += kLanes<R>) {
      transpose_square(d, h.ds + x * kY<R> + y, kY<R>, h.ds_t + y * kX + x, kX);
    }
  }
  for (int64_t x = begin; x < padded; x += kY<R>) {
    accumulate<kWidth>(width, 0, keys, kX, h.keys + j0 * width, h.ds_t + x,
                       h.dqueries_t + x0 * width + x);
  }
}

template <int kWidth, typename R>
HWY_NOINLINE void backward_head(const HeadBackward<R>& h) {
  for (int64_t j0 = 0; j0 < h.time; j0 += kY<R>) {
    for (int64_t x0 = j0 / kX * kX; x0 < h.time; x0 += kX) {
      const int64_t begin = std::max<int64_t>(j0 - x0, 0);
      backward_tile<kWidth>(h, j0, x0, begin, std::min(kX, h.time - x0));
    }
  }
}

}  // namespace attention
}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
