// The inner loops of attention_train.cpp, on packed operands of one head.
//
// Everything is made of two products over a tile, with `y` along the lanes (two vectors: Y values)
// and x down the rows of the tile:
//   product:    tile[x, y] = start[x, y] + sum over k of a[x, k] bt[k, y]
//   accumulate: out[k, y] += sum over x of a[x, k] tile[x, y]
// so lanes are never wasted, whatever the head width K. Forward puts queries on the lanes and walks
// over keys; backward puts keys on the lanes, walks over queries, and turns the tile of score
// gradients around for the query gradients. Scores are in units of log 2: p = 2^(s - lse).

// Highway's include guard: the file is read again for each target.
#if defined(TAPER_KERNELS_ATTENTION_TRAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#undef TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#else
#define TAPER_KERNELS_ATTENTION_TRAIN_INL_H_
#endif

#include <algorithm>
#include <type_traits>

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

// emit(x, low, high) for rows [begin, end) of the product, whose sums begin at what start(x, low,
// high) sets; kWidth 0: K is `width`.
template <int kCount, int kWidth, typename R, class Start, class Emit>
HWY_INLINE void product_rows(int64_t width, int64_t x, const R* HWY_RESTRICT a,
                             const R* HWY_RESTRICT bt, const Start& start, const Emit& emit) {
  const Tag<R> d;
  const int64_t k_end = kWidth ? kWidth : width;
  Vector<R> low[kCount], high[kCount];
  for (int r = 0; r < kCount; ++r) start(x + r, low[r], high[r]);
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

template <int kWidth, typename R, class Start, class Emit>
HWY_INLINE void product(int64_t width, int64_t begin, int64_t end, const R* a, const R* bt,
                        const Start& start, const Emit& emit) {
  int64_t x = begin;
  for (; x + kRows <= end; x += kRows) product_rows<kRows, kWidth>(width, x, a, bt, start, emit);
  for (; x < end; ++x) product_rows<1, kWidth>(width, x, a, bt, start, emit);
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
  for (; k + kRows <= k_end; k += kRows)
    accumulate_columns<kRows, kWidth>(width, k, begin, end, stride, a, tile, out);
  for (; k + 4 <= k_end; k += 4)
    accumulate_columns<4, kWidth>(width, k, begin, end, stride, a, tile, out);
  for (; k + 2 <= k_end; k += 2)
    accumulate_columns<2, kWidth>(width, k, begin, end, stride, a, tile, out);
}

// The first `count` lanes (clamped to the vector) of part `half` of a row of Y.
template <typename R>
HWY_INLINE auto first_lanes(int64_t count, int64_t half) {
  const int64_t left = count - half * kLanes<R>;
  return hn::FirstN(Tag<R>(), static_cast<size_t>(std::clamp<int64_t>(left, 0, kLanes<R>)));
}

// Scores up to this need no shift: sums of 2^s, and of 2^s v for values up to 2^20, neither
// overflow nor vanish in windows of up to 2^16 tokens.
constexpr double kMaxUnshifted = 90;

// What one block of queries [i0, i0 + Y) of one head reads and gives: qt [K, Y] scaled by log2 e /
// sqrt(K); keys and values [T, K]; with p = 2^(score - shift[y]), sum [Y] of p, out [K, Y] of p v.
template <typename R>
struct BlockForward {
  int64_t width, i0, end;  // end: past the last key that a query of the block sees
  const R *qt, *keys, *values;
  R *shift, *sum, *out;
  R* tile;  // [X, Y]

  // Query i0 + y sees keys up to itself: row x hides its first x - i0 lanes.
  int64_t hidden(int64_t x) const { return x - i0; }
};

// Row maxima of the scores, as the shift.
template <int kWidth, typename R>
HWY_NOINLINE void score_maxima(const BlockForward<R>& b) {
  const Tag<R> d;
  const auto none = hn::Set(d, static_cast<R>(-1e30));
  Vector<R> max[2] = {none, none};
  const auto start = [&](int64_t, Vector<R>& low, Vector<R>& high)
                         HWY_ATTR { low = high = hn::Zero(d); };
  const auto emit = [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
    const int64_t hidden = std::max<int64_t>(b.hidden(x), 0);
    low = hn::IfThenElse(first_lanes<R>(hidden, 0), none, low);
    high = hn::IfThenElse(first_lanes<R>(hidden, 1), none, high);
    max[0] = hn::Max(max[0], low);
    max[1] = hn::Max(max[1], high);
  };
  product<kWidth>(b.width, 0, b.end, b.keys, b.qt, start, emit);
  hn::StoreU(max[0], d, b.shift);
  hn::StoreU(max[1], d, b.shift + kLanes<R>);
}

template <int kWidth, typename R>
HWY_NOINLINE void forward_block(const BlockForward<R>& b) {
  const Tag<R> d;
  const int64_t width = kWidth ? kWidth : b.width;
  for (int64_t i = 0; i < width * kY<R>; ++i) b.out[i] = 0;
  const auto below0 = hn::Neg(hn::LoadU(d, b.shift));
  const auto below1 = hn::Neg(hn::LoadU(d, b.shift + kLanes<R>));
  const auto start = [&](int64_t, Vector<R>& low, Vector<R>& high) HWY_ATTR {
    low = below0;
    high = below1;
  };
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  for (int64_t x0 = 0; x0 < b.end; x0 += kX) {
    const int64_t rows = std::min(kX, b.end - x0);
    const auto probability = [&](auto diagonal) HWY_ATTR {
      return [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
        low = exp2(d, low);
        high = exp2(d, high);
        if constexpr (decltype(diagonal)::value) {
          low = hn::IfThenZeroElse(first_lanes<R>(b.hidden(x0 + x), 0), low);
          high = hn::IfThenZeroElse(first_lanes<R>(b.hidden(x0 + x), 1), high);
        }
        sum0 = hn::Add(sum0, low);
        sum1 = hn::Add(sum1, high);
        hn::StoreU(low, d, b.tile + x * kY<R>);
        hn::StoreU(high, d, b.tile + x * kY<R> + kLanes<R>);
      };
    };
    const R* keys = b.keys + x0 * width;
    const int64_t full = std::clamp<int64_t>(b.i0 + 1 - x0, 0, rows);
    product<kWidth>(width, 0, full, keys, b.qt, start, probability(std::false_type()));
    product<kWidth>(width, full, rows, keys, b.qt, start, probability(std::true_type()));
    accumulate<kWidth>(width, 0, rows, kY<R>, b.values + x0 * width, b.tile, b.out);
  }
  hn::StoreU(sum0, d, b.sum);
  hn::StoreU(sum1, d, b.sum + kLanes<R>);
}

// What one head's backward pass reads and adds to. Blocks of keys are [T / Y][K, Y], of queries [T
// / X][K, X].
template <typename R>
struct HeadBackward {
  int64_t width, time;
  const R* queries;      // [T, K], rotated, scaled by log2 e / sqrt(K)
  const R* dout;         // [T, K]
  const R* minus_lse;    // [T]
  const R* minus_delta;  // [T], -<dout, out>
  const R* keys;         // [T, K], rotated
  const R* keys_t;       // blocks of keys
  const R* values_t;     // blocks of keys
  R* dkeys_t;            // blocks of keys; d(score) times the scaled query
  R* dvalues_t;          // blocks of keys
  R* dqueries_t;         // blocks of queries; d(score) times the key
  R *p, *ds, *ds_t;      // tiles: [X, Y], [X, Y], [Y, X]
};

// Queries [x0 + begin, x0 + end) against keys [j0, j0 + Y).
template <int kWidth, typename R>
HWY_INLINE void backward_tile(const HeadBackward<R>& h, int64_t j0, int64_t x0, int64_t begin,
                              int64_t end) {
  const Tag<R> d;
  const int64_t width = kWidth ? kWidth : h.width;
  const R* queries = h.queries + x0 * width;
  const R* dout = h.dout + x0 * width;
  // Sums of a row x begin at from[x].
  const auto begin_at = [&](const R* from) HWY_ATTR {
    return [=](int64_t x, Vector<R>& low, Vector<R>& high)
               HWY_ATTR { low = high = hn::Set(Tag<R>(), from[x]); };
  };
  const auto probability = [&](int64_t x, Vector<R> low, Vector<R> high) HWY_ATTR {
    hn::StoreU(exp2(d, low), d, h.p + x * kY<R>);
    hn::StoreU(exp2(d, high), d, h.p + x * kY<R> + kLanes<R>);
  };
  product<kWidth>(width, begin, end, queries, h.keys_t + j0 * width, begin_at(h.minus_lse + x0),
                  probability);
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
    const R* p = h.p + x * kY<R>;
    hn::StoreU(hn::Mul(hn::LoadU(d, p), low), d, h.ds + x * kY<R>);
    hn::StoreU(hn::Mul(hn::LoadU(d, p + kLanes<R>), high), d, h.ds + x * kY<R> + kLanes<R>);
  };
  product<kWidth>(width, begin, end, dout, h.values_t + j0 * width, begin_at(h.minus_delta + x0),
                  score_gradient);
  accumulate<kWidth>(width, begin, end, kY<R>, dout, h.p, h.dvalues_t + j0 * width);
  accumulate<kWidth>(width, begin, end, kY<R>, queries, h.ds, h.dkeys_t + j0 * width);

  const int64_t padded = (end + kY<R> - 1) / kY<R> * kY<R>;
  for (int64_t i = end * kY<R>; i < padded * kY<R>; ++i) h.ds[i] = 0;
  const int64_t keys = std::min(kY<R>, h.time - j0);
  for (int64_t x = begin; x < padded; x += kLanes<R>)
    for (int64_t y = 0; y < kY<R>; y += kLanes<R>)
      transpose_square(d, h.ds + x * kY<R> + y, kY<R>, h.ds_t + y * kX + x, kX);
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
