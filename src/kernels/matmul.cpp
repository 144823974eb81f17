#include "kernels/matmul.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace taper::HWY_NAMESPACE {
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Depth of one pass: a block of 128 rows of x then stays in a 512 KB second-level cache, and the
// rows of w of a tile in the first. Every path uses it, since it fixes the order of additions.
constexpr int64_t kDepthBlock = 512;

// kRows x kOutputs results over one depth block, each in one vector accumulator.
template <int kRows, int kOutputs>
HWY_INLINE void tile(const float* HWY_RESTRICT x, int64_t x_stride, const float* HWY_RESTRICT w,
                     int64_t w_stride, float* HWY_RESTRICT y, int64_t y_stride, int64_t depth,
                     bool add) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[kRows][kOutputs];
  for (auto& row : sum)
    for (V& value : row) value = hn::Zero(d);
  int64_t k = 0;
  for (; k + lanes <= depth; k += lanes) {
    V left[kRows];
    for (int r = 0; r < kRows; ++r) left[r] = hn::LoadU(d, x + r * x_stride + k);
    for (int n = 0; n < kOutputs; ++n) {
      const V right = hn::LoadU(d, w + n * w_stride + k);
      for (int r = 0; r < kRows; ++r) sum[r][n] = hn::MulAdd(left[r], right, sum[r][n]);
    }
  }
  if (k < depth) {
    const FirstLanes rest{static_cast<size_t>(depth - k)};
    for (int n = 0; n < kOutputs; ++n) {
      const V right = load(d, w + n * w_stride + k, rest);
      for (int r = 0; r < kRows; ++r) {
        const V left = load(d, x + r * x_stride + k, rest);
        sum[r][n] = hn::MulAdd(left, right, sum[r][n]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int n = 0; n < kOutputs; ++n) {
      float& out = y[r * y_stride + n];
      const float total = sum_lanes(d, sum[r][n]);
      out = add ? out + total : total;
    }
  }
}

// All rows against kOutputs rows of w, over one depth block.
template <int kOutputs>
HWY_INLINE void panel(const MatmulArgs& a, int64_t n, int64_t k0, int64_t depth) {
  const bool add = a.accumulate || k0 > 0;
  const float* w = a.w + n * a.w_stride + k0;
  int64_t r = 0;
  for (; r + 3 <= a.rows; r += 3) {
    tile<3, kOutputs>(a.x + r * a.x_stride + k0, a.x_stride, w, a.w_stride,
                      a.y + r * a.y_stride + n, a.y_stride, depth, add);
  }
  const float* x = a.x + r * a.x_stride + k0;
  float* y = a.y + r * a.y_stride + n;
  if (a.rows - r == 2)
    tile<2, kOutputs>(x, a.x_stride, w, a.w_stride, y, a.y_stride, depth, add);
  else if (a.rows - r == 1)
    tile<1, kOutputs>(x, a.x_stride, w, a.w_stride, y, a.y_stride, depth, add);
}

// Many rows: x stays in cache for a depth block while w passes once.
void multiply_block(const MatmulArgs& a, int64_t begin, int64_t end) {
  for (int64_t k0 = 0; k0 < a.depth; k0 += kDepthBlock) {
    const int64_t depth = std::min(kDepthBlock, a.depth - k0);
    int64_t n = begin;
    for (; n + 4 <= end; n += 4) panel<4>(a, n, k0, depth);
    for (; n < end; ++n) panel<1>(a, n, k0, depth);
  }
}

// One row: w is read once, row by row from start to end; eight rows hide the latency of additions.
void multiply_vector(const MatmulArgs& a, int64_t begin, int64_t end) {
  int64_t n = begin;
  for (; n + 8 <= end; n += 8) {
    for (int64_t k0 = 0; k0 < a.depth; k0 += kDepthBlock) {
      tile<1, 8>(a.x + k0, 0, a.w + n * a.w_stride + k0, a.w_stride, a.y + n, 0,
                 std::min(kDepthBlock, a.depth - k0), a.accumulate || k0 > 0);
    }
  }
  for (; n < end; ++n) {
    for (int64_t k0 = 0; k0 < a.depth; k0 += kDepthBlock) {
      tile<1, 1>(a.x + k0, 0, a.w + n * a.w_stride + k0, a.w_stride, a.y + n, 0,
                 std::min(kDepthBlock, a.depth - k0), a.accumulate || k0 > 0);
    }
  }
}

void matmul_target(const MatmulArgs& a, int64_t begin, int64_t end) {
  if (a.rows == 1)
    multiply_vector(a, begin, end);
  else
    multiply_block(a, begin, end);
}

}  // namespace taper::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace taper {

HWY_EXPORT(matmul_target);

void matmul_transposed(const MatmulArgs& args, Range outputs) {
  HWY_DYNAMIC_DISPATCH(matmul_target)(args, outputs.begin, outputs.end);
}

}  // namespace taper
#endif
