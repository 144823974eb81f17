#include "kernels/attention_train.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/simd_targets.h"
#include "kernels/storage.h"

namespace taper {
namespace {

using test::at;
using test::expect_near;
using test::random_values;
using test::stored;
using test::Values;
using test::widened;

// Inputs, and the specification in double.
struct Problem {
  AttentionShape shape;
  Values qkv, dout, cosines, sines;

  Problem(int64_t batch, int64_t time, int64_t heads, int64_t kv_heads, int64_t width,
          uint64_t seed, double spread = 1.5)
      : shape{batch, time, heads, kv_heads, width} {
    qkv = random_values(batch * time * shape.row(), seed, spread);
    dout = random_values(batch * time * heads * width, seed + 1000);
    for (int64_t t = 0; t < time; ++t) {
      for (int64_t i = 0; i < width / 2; ++i) {
        const double angle = static_cast<double>(t) * std::pow(100.0, -2.0 * i / width);
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
      }
    }
  }

  // Head `index` of token t: query heads, then keys, then values.
  Values head(int64_t b, int64_t t, int64_t index, bool rotated) const {
    const int64_t width = shape.head_width, half = width / 2;
    const double* x = qkv.data() + (b * shape.time + t) * shape.row() + index * width;
    Values y(x, x + width);
    if (!rotated) return y;
    for (int64_t i = 0; i < half; ++i) {
      const double c = cosines[at(t * half + i)], s = sines[at(t * half + i)];
      y[at(i)] = x[i] * c - x[i + half] * s;
      y[at(i + half)] = x[i + half] * c + x[i] * s;
    }
    return y;
  }

  Values reference() const {
    const int64_t width = shape.head_width, per_group = shape.num_heads / shape.num_kv_heads;
    Values out(dout.size());
    for (int64_t b = 0; b < shape.batch; ++b) {
      for (int64_t h = 0; h < shape.num_heads; ++h) {
        const int64_t key = shape.num_heads + h / per_group, value = key + shape.num_kv_heads;
        for (int64_t t = 0; t < shape.time; ++t) {
          const Values q = head(b, t, h, true);
          Values p;
          double sum = 0, max = 0;
          for (int64_t s = 0; s <= t; ++s) {
            const Values k = head(b, s, key, true);
            double dot = 0;
            for (int64_t i = 0; i < width; ++i) dot += q[at(i)] * k[at(i)];
            p.push_back(dot / std::sqrt(static_cast<double>(width)));
            max = std::max(max, p.back());
          }
          for (double& x : p) sum += x = std::exp(x - max);
          double* to = out.data() + ((b * shape.time + t) * shape.num_heads + h) * width;
          for (int64_t s = 0; s <= t; ++s) {
            const Values v = head(b, s, value, false);
            for (int64_t i = 0; i < width; ++i) to[i] += p[at(s)] / sum * v[at(i)];
          }
        }
      }
    }
    return out;
  }
};

struct Result {
  Values out, dqkv;
};

// Groups one by one when `split`, else all in one call.
template <typename T>
Result run(const Problem& p, bool split = false) {
  using R = Real<T>;
  const auto qkv = stored<T>(p.qkv), dout = stored<T>(p.dout);
  const auto cosines = stored<R>(p.cosines), sines = stored<R>(p.sines);
  std::vector<T> out(dout.size()), dqkv(qkv.size());
  std::vector<R> lse(at(p.shape.batch * p.shape.num_heads * p.shape.time));
  // Scratch starts as garbage: nothing may depend on it.
  const R nan = std::numeric_limits<R>::quiet_NaN();
  std::vector<R> forward(at(attention_forward_scratch(p.shape)), nan);
  std::vector<R> backward(at(attention_backward_scratch(p.shape)), nan);
  const int64_t step = split ? 1 : p.shape.groups();
  for (int64_t g = 0; g < p.shape.groups(); g += step) {
    attention_forward_groups<T>(p.shape, {g, g + step}, qkv.data(), cosines.data(), sines.data(),
                                out.data(), lse.data(), forward.data());
  }
  for (int64_t g = 0; g < p.shape.groups(); g += step) {
    attention_backward_groups<T>(p.shape, {g, g + step}, qkv.data(), cosines.data(), sines.data(),
                                 out.data(), lse.data(), dout.data(), dqkv.data(), backward.data());
  }
  return {widened(out), widened(dqkv)};
}

struct Shape {
  int64_t batch, time, heads, kv_heads, width;
};
// Grouped heads with H / KV != KV, widths with and without code of their own, times around tile
// edges.
const Shape kShapes[] = {{1, 1, 1, 1, 2},   {2, 3, 2, 1, 4},   {1, 17, 3, 3, 6},
                         {1, 70, 6, 2, 8},  {2, 33, 3, 1, 32}, {1, 131, 2, 1, 16},
                         {1, 65, 1, 1, 64}, {1, 40, 4, 1, 10}, {1, 64, 2, 2, 128}};

TEST(AttentionTrain, AnyShape_MatchesTheFormula) {
  for (const Shape& s : kShapes) {
    const Problem p(s.batch, s.time, s.heads, s.kv_heads, s.width, 7);
    const Values expected = p.reference();
    SCOPED_TRACE(testing::Message() << "width " << s.width << " time " << s.time);
    test::for_each_target([&] {
      expect_near(run<double>(p).out, expected, 1e-12);
      expect_near(run<float>(p).out, expected, 5e-6);
      expect_near(run<bf16>(p).out, expected, 4e-3);  // one rounding of the result
    });
  }
}

TEST(AttentionTrain, Gradient_MatchesCentralDifferencesOfTheFormula) {
  for (const Shape& s : {Shape{1, 3, 2, 1, 2}, Shape{1, 9, 4, 1, 4}, Shape{2, 7, 3, 1, 6},
                         Shape{1, 19, 2, 2, 8}, Shape{1, 5, 2, 1, 32}}) {
    Problem p(s.batch, s.time, s.heads, s.kv_heads, s.width, 11, 1.0);
    const auto loss = [&] {
      const Values out = p.reference();
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * p.dout[i];
      return sum;
    };
    SCOPED_TRACE(testing::Message() << "width " << s.width << " time " << s.time);
    Values expected(p.qkv.size());
    const double step = 1e-5;
    for (size_t i = 0; i < p.qkv.size(); ++i) {
      const double x = p.qkv[i];
      p.qkv[i] = x + step;
      const double above = loss();
      p.qkv[i] = x - step;
      expected[i] = (above - loss()) / (2 * step);
      p.qkv[i] = x;
    }
    test::for_each_target([&] { expect_near(run<double>(p).dqkv, expected, 1e-7); });
  }
}

TEST(AttentionTrain, GradientOfEveryStorageType_MatchesDouble) {
  for (const Shape& s : kShapes) {
    const Problem p(s.batch, s.time, s.heads, s.kv_heads, s.width, 13);
    SCOPED_TRACE(testing::Message() << "width " << s.width << " time " << s.time);
    const Values expected = run<double>(p).dqkv;
    test::for_each_target([&] {
      expect_near(run<double>(p).dqkv, expected, 1e-12);
      expect_near(run<float>(p).dqkv, expected, 3e-5);
      expect_near(run<bf16>(p).dqkv, expected, 0.1);  // <dout, out> comes from the rounded out
    });
  }
}

TEST(AttentionTrain, GroupsOneByOne_GiveTheSameBits) {
  const Problem p(2, 37, 6, 3, 8, 17);
  test::for_each_target([&] {
    const Result whole = run<float>(p), split = run<float>(p, true);
    EXPECT_EQ(whole.out, split.out);
    EXPECT_EQ(whole.dqkv, split.dqkv);
  });
}

TEST(AttentionTrain, LaterTokens_DoNotReachEarlierOnes) {
  for (const int64_t changed : {1, 15, 16, 31, 63, 64, 90}) {
    const Problem p(1, 100, 2, 1, 8, 19);
    Problem other = p;
    for (int64_t i = changed * p.shape.row(); i < std::ssize(p.qkv); ++i) other.qkv[at(i)] += 3;
    test::for_each_target([&] {
      const Values a = run<float>(p).out, b = run<float>(other).out;
      for (int64_t i = 0; i < changed * 16; ++i) ASSERT_EQ(a[at(i)], b[at(i)]) << changed;
      EXPECT_NE(a[at(changed * 16)], b[at(changed * 16)]);
    });
  }
}

// Scores whose powers of two would overflow, were they not taken relative to the largest.
TEST(AttentionTrain, LargeScores_MatchTheFormula) {
  for (const int64_t width : {4, 8, 10, 16, 32, 64}) {
    const Problem p(1, 70, 2, 1, width, 31, 18.0);
    SCOPED_TRACE(testing::Message() << "width " << width);
    const Values expected = p.reference(), gradient = run<double>(p).dqkv;
    test::for_each_target([&] {
      expect_near(run<double>(p).out, expected, 1e-10);
      expect_near(run<float>(p).out, expected, 2e-2);
      expect_near(run<double>(p).dqkv, gradient, 1e-9);
    });
  }
}

TEST(AttentionTrain, HugeScores_StayFinite) {
  const Problem p(1, 90, 2, 1, 8, 23, 60.0);
  test::for_each_target([&] {
    const Result result = run<float>(p);
    for (double x : result.out) ASSERT_TRUE(std::isfinite(x));
    for (double x : result.dqkv) ASSERT_TRUE(std::isfinite(x));
  });
}

TEST(AttentionTrain, NanInAKey_ReachesEveryLaterToken) {
  Problem p(1, 80, 1, 1, 8, 29);
  p.qkv[at(40 * p.shape.row() + 8)] = std::numeric_limits<double>::quiet_NaN();
  test::for_each_target([&] {
    const Values out = run<float>(p).out;
    for (int64_t t = 40; t < 80; ++t) ASSERT_TRUE(std::isnan(out[at(t * 8)])) << t;
  });
}

}  // namespace
}  // namespace taper
