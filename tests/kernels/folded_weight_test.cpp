#include "kernels/folded_weight.h"

#include <gtest/gtest.h>

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

TEST(FoldedWeight, AnyWidth_MatchesTheFormula) {
  for (const int64_t in : {1, 3, 16, 229}) {
    const int64_t out = 7;
    const Values w = random_values(out * in, 1), s = random_values(in, 2);
    Values expected = w;
    for (int64_t i = 0; i < out * in; ++i) expected[at(i)] *= s[at(i % in)];
    const auto weight = stored<float>(w), scale = stored<float>(s);
    SCOPED_TRACE(in);
    test::for_each_target([&] {
      std::vector<float> plain(w.size()), scaled(w.size());
      std::vector<bf16> half(w.size());
      fold_weight<float>({0, 3}, in, weight.data(), scale.data(), scaled.data());
      fold_weight<float>({3, out}, in, weight.data(), scale.data(), scaled.data());
      expect_near(widened(scaled), expected, 1e-6);
      fold_weight<float>({0, out}, in, weight.data(), nullptr, plain.data());
      EXPECT_EQ(plain, weight);
      fold_weight<bf16>({0, out}, in, weight.data(), scale.data(), half.data());
      expect_near(widened(half), expected, 4e-3);
      Values wide(w.size());
      fold_weight<double>({0, out}, in, w.data(), s.data(), wide.data());
      EXPECT_EQ(wide, expected);
    });
  }
}

TEST(FoldedWeight, Gradients_MatchTheChainRule) {
  for (const int64_t in : {1, 3, 16, 229}) {
    const int64_t out = 7;
    const double c = 0.7;
    const Values w = random_values(out * in, 1), g = random_values(out * in, 2),
                 gamma_t = random_values(in, 3), before = random_values(out * in, 4),
                 more = random_values(out * in, 5);
    Values dweight = before, dgamma_t(at(in), 0.5);
    for (int64_t i = 0; i < out * in; ++i) {
      dweight[at(i)] += (g[at(i)] + more[at(i)]) * c * gamma_t[at(i % in)];
      dgamma_t[at(i % in)] += c * (g[at(i)] + more[at(i)]) * w[at(i)];
    }
    const auto weight = stored<float>(w), gamma = stored<float>(gamma_t);
    SCOPED_TRACE(in);
    test::for_each_target([&] {
      auto to_weight = stored<float>(before);
      std::vector<float> to_gamma(at(in), 0.5f);
      auto first = stored<float>(g), second = stored<float>(more);
      const std::vector<float*> gradients = {first.data(), second.data()};
      const FoldedWeightGradient<float> args{gradients,        weight.data(),   gamma.data(), 0.7f,
                                             to_weight.data(), to_gamma.data(), out,          in};
      fold_weight_backward(args, {0, in / 2});
      fold_weight_backward(args, {in / 2, in});
      expect_near(widened(to_weight), dweight, 1e-6);
      expect_near(widened(to_gamma), dgamma_t, 1e-5);
      EXPECT_EQ(first, std::vector<float>(first.size(), 0.0f));
      EXPECT_EQ(second, first);

      Values wide_weight = before, wide_gamma(at(in), 0.5), wide_first = g, wide_second = more;
      const std::vector<double*> wide = {wide_first.data(), wide_second.data()};
      fold_weight_backward<double>(
          {wide, w.data(), gamma_t.data(), c, wide_weight.data(), wide_gamma.data(), out, in},
          {0, in});
      expect_near(wide_weight, dweight, 1e-14);
      expect_near(wide_gamma, dgamma_t, 1e-13);
    });
  }
}

TEST(FoldedWeight, RowsConvertAndAdd) {
  const Values a = random_values(37, 1), b = random_values(37, 2);
  Values sum = a;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  test::for_each_target([&] {
    auto to = stored<float>(a);
    add_row(stored<float>(b).data(), 37, to.data());
    expect_near(widened(to), sum, 1e-6);
    Values wide = a;
    add_row(b.data(), 37, wide.data());
    EXPECT_EQ(wide, sum);
    std::vector<bf16> half(37);
    convert(stored<float>(a).data(), 37, half.data());
    EXPECT_EQ(widened(half), widened(stored<bf16>(a)));
  });
}

}  // namespace
}  // namespace taper
