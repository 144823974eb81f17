#include "kernels/cached_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"
#include "kernels/simd_targets.h"
#include "tolerances.h"

namespace taper {
namespace {

struct Cache {
  int64_t head_width, stride;
  std::vector<float> q, keys, values;

  Cache(int64_t head_width_, int64_t stride_, uint64_t seed)
      : head_width(head_width_), stride(stride_) {
    Random random(seed);
    const auto fill = [&](std::vector<float>& to, int64_t count) {
      to.resize(static_cast<size_t>(count));
      for (float& value : to) value = static_cast<float>(2 * random.normal());
    };
    fill(q, head_width);
    fill(keys, head_width * stride);
    fill(values, head_width * stride);
  }

  std::vector<float> run(int64_t length, float scale) const {
    std::vector<float> scores(static_cast<size_t>(stride));
    std::vector<float> out(static_cast<size_t>(head_width));
    cached_attention({.q = q.data(),
                      .keys = keys.data(),
                      .values = values.data(),
                      .stride = stride,
                      .length = length,
                      .head_width = head_width,
                      .scale = scale,
                      .scores = scores.data(),
                      .out = out.data()});
    return out;
  }

  double at(const std::vector<float>& matrix, int64_t k, int64_t t) const {
    return matrix[static_cast<size_t>(k * stride + t)];
  }

  // The specification, in double.
  std::vector<double> reference(int64_t length, double scale) const {
    std::vector<double> p(static_cast<size_t>(length));
    for (int64_t t = 0; t < length; ++t)
      for (int64_t k = 0; k < head_width; ++k)
        p[static_cast<size_t>(t)] += scale * q[static_cast<size_t>(k)] * at(keys, k, t);
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& value : p) sum += value = std::exp(value - largest);
    std::vector<double> out(static_cast<size_t>(head_width));
    for (int64_t k = 0; k < head_width; ++k)
      for (int64_t t = 0; t < length; ++t)
        out[static_cast<size_t>(k)] += p[static_cast<size_t>(t)] / sum * at(values, k, t);
    return out;
  }
};

TEST(CachedAttention, AnyWidthAndLength_MatchesTheFormula) {
  for (const int64_t head_width : {1, 2, 6, 8, 20, 64}) {
    for (const int64_t length : {1, 2, 7, 16, 17, 65, 150}) {
      const Cache cache(head_width, 160, static_cast<uint64_t>(head_width + length));
      const double scale = 1 / std::sqrt(static_cast<double>(head_width));
      const auto expected = cache.reference(length, scale);
      test::for_each_target([&] {
        const auto out = cache.run(length, static_cast<float>(scale));
        for (size_t k = 0; k < out.size(); ++k)
          ASSERT_NEAR(out[k], expected[k], 8 * test::kAttentionTolerance)
              << "width " << head_width << " length " << length << " channel " << k;
      });
    }
  }
}

TEST(CachedAttention, LeftoversBehindTheLength_DoNotMatter) {
  const Cache clean(8, 48, 1);
  Cache dirty = clean;
  for (const int64_t length : {1, 5, 16, 31}) {
    for (int64_t k = 0; k < 8; ++k) {
      for (int64_t t = length; t < 48; ++t) {
        dirty.keys[static_cast<size_t>(k * 48 + t)] = std::numeric_limits<float>::quiet_NaN();
        dirty.values[static_cast<size_t>(k * 48 + t)] = std::numeric_limits<float>::infinity();
      }
    }
    test::for_each_target([&] { EXPECT_EQ(clean.run(length, 0.5f), dirty.run(length, 0.5f)); });
    dirty = clean;
  }
}

TEST(CachedAttention, HugeScores_StayFinite) {
  Cache cache(4, 32, 2);
  for (float& value : cache.q) value = 1e18f;
  test::for_each_target([&] {
    for (const float value : cache.run(20, 1.0f)) EXPECT_TRUE(std::isfinite(value));
  });
}

TEST(CachedAttention, EqualKeys_AverageTheValues) {
  Cache cache(3, 16, 4);
  std::fill(cache.keys.begin(), cache.keys.end(), 0.7f);
  test::for_each_target([&] {
    const auto out = cache.run(11, 1.0f);
    for (int64_t k = 0; k < 3; ++k) {
      double mean = 0;
      for (int64_t t = 0; t < 11; ++t) mean += cache.at(cache.values, k, t) / 11;
      EXPECT_NEAR(out[static_cast<size_t>(k)], mean, 1e-6);
    }
  });
}

}  // namespace
}  // namespace taper
