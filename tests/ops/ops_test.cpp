// Ops give the same bits on a team of any size, and what their kernels' formulas say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/aligned_memory.h"
#include "core/random.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/fold.h"
#include "ops/head.h"
#include "ops/mlp.h"
#include "ops/norm.h"

namespace taper {
namespace {

using Floats = std::vector<float>;

Floats draws(int64_t count, uint64_t seed) {
  Random random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

// What an op computes on teams of several sizes.
void expect_one_result(const std::function<Floats(const OpContext&)>& run) {
  Floats expected;
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool team(threads);
    const Floats result = run(OpContext{team});
    if (threads == 1) expected = result;
    EXPECT_EQ(result, expected) << threads << " threads";
  }
}

constexpr int64_t kRows = 700, kWidth = 37;  // several blocks of rows

TEST(NormOp, AnyTeam_GivesTheSameBitsForwardAndBack) {
  const Floats h = draws(kRows * kWidth, 1), gamma = draws(kWidth, 2), gamma_t = draws(kWidth, 3),
               dx = draws(kRows * kWidth, 4);
  const TaperNormArgs<float> args{gamma.data(), gamma_t.data(), 0.7f, 0.4f, 1e-5f, kWidth};
  expect_one_result([&](const OpContext& context) {
    Floats x(h.size()), rstd(kRows), dh = dx, dgamma(kWidth), dgamma_t(kWidth),
                                     scratch(static_cast<size_t>(norm_scratch(kRows, kWidth)));
    TaperNormSums sums;
    norm_forward<float>(context, args, kRows, h.data(), x.data(), rstd.data(), &sums, nullptr);
    EXPECT_EQ(sums.rows, kRows);
    norm_backward<float>(context, args, kRows, h.data(), dx.data(), rstd.data(), dh.data(),
                         dh.data(), dgamma.data(), dgamma_t.data(), nullptr, scratch.data());
    Floats all = x;
    for (const Floats* part : {&dh, &dgamma, &dgamma_t})
      all.insert(all.end(), part->begin(), part->end());
    all.push_back(static_cast<float>(sums.numerator));
    all.push_back(static_cast<float>(sums.scale));
    return all;
  });
}

TEST(AttentionOp, AnyTeam_GivesTheSameBits) {
  const AttentionShape shape{3, 19, 6, 2, 4};
  const int64_t rows = shape.batch * shape.time;
  const Floats qkv = draws(rows * shape.row(), 1), dmixed = draws(rows * 24, 2);
  const RopeTable<float> rope(shape.time, 4, 10000);
  expect_one_result([&](const OpContext& context) {
    Floats mixed(dmixed.size()), lse(static_cast<size_t>(rows * 6)), dqkv(qkv.size()),
        scratch(static_cast<size_t>(attention_scratch(shape, context.team.size())));
    attention_forward<float>(context, shape, qkv.data(), rope, mixed.data(), lse.data(),
                             scratch.data());
    attention_backward<float>(context, shape, qkv.data(), rope, mixed.data(), lse.data(),
                              dmixed.data(), dqkv.data(), scratch.data());
    mixed.insert(mixed.end(), dqkv.begin(), dqkv.end());
    return mixed;
  });
}

TEST(EmbeddingOp, Gradient_AddsRowsInTheOrderOfTheIds) {
  const int64_t vocab = 11;
  const Floats table = draws(vocab * kWidth, 1), dh = draws(kRows * kWidth, 2);
  std::vector<int64_t> ids;
  Random random(3);
  for (int64_t n = 0; n < kRows; ++n) ids.push_back(static_cast<int64_t>(random.below(vocab)));
  Floats expected(table.size());
  for (int64_t n = 0; n < kRows; ++n)
    for (int64_t i = 0; i < kWidth; ++i)
      expected[static_cast<size_t>(ids[static_cast<size_t>(n)] * kWidth + i)] +=
          dh[static_cast<size_t>(n * kWidth + i)];
  expect_one_result([&](const OpContext& context) {
    Floats h(dh.size()), dtable(table.size());
    embedding_forward<float>(context, kRows, kWidth, ids.data(), table.data(), h.data());
    for (int64_t n : {int64_t{0}, kRows - 1})
      EXPECT_EQ(h[static_cast<size_t>(n * kWidth + 5)],
                table[static_cast<size_t>(ids[static_cast<size_t>(n)] * kWidth + 5)]);
    embedding_backward<float>(context, kRows, kWidth, vocab, ids.data(), dh.data(), dtable.data());
    EXPECT_EQ(dtable, expected);
    return dtable;
  });
}

TEST(MlpOp, AnyTeam_GivesTheSameBits) {
  const Floats gate_up = draws(kRows * 2 * kWidth, 1), dhidden = draws(kRows * kWidth, 2);
  expect_one_result([&](const OpContext& context) {
    Floats hidden(dhidden.size()), again(dhidden.size()), dgate_up(gate_up.size());
    swiglu_forward<float>(context, kRows, kWidth, gate_up.data(), hidden.data());
    swiglu_backward<float>(context, kRows, kWidth, gate_up.data(), dhidden.data(), dgate_up.data(),
                           again.data());
    EXPECT_EQ(again, hidden);
    return dgate_up;
  });
}

// Chunks of rows, in double: more rows than a chunk has, against the logits in full.
TEST(HeadOp, ManyChunks_GiveTheLossAndGradientOfTheWhole) {
  const HeadShape shape{300, 5, 7};
  std::vector<double> x, weight;
  for (const float v : draws(shape.rows * shape.width, 1)) x.push_back(v);
  for (const float v : draws(shape.vocab * shape.width, 2)) weight.push_back(v);
  std::vector<int64_t> targets(static_cast<size_t>(shape.rows));
  for (size_t n = 0; n < targets.size(); ++n)
    targets[n] = n % 10 == 9 ? -1 : static_cast<int64_t>(n) % shape.vocab;

  ThreadPool team(2);
  LinearOp linear(team);
  AlignedMemory memory(1 << 22);
  MemoryLayout layout(memory.data());
  HeadScratch<double> scratch(shape, layout);
  scratch.chunk_rows = 64;
  std::vector<double> dx(x.size()), dweight(weight.size());
  HeadArgs<double> args{shape,
                        x.data(),
                        weight.data(),
                        targets.data(),
                        /*backward=*/true,
                        0.5,
                        dx.data(),
                        dweight.data()};
  const HeadSums sums = head_cross_entropy(OpContext{team}, linear, args, scratch);

  double loss = 0, norms = 0;
  std::vector<double> expected_dx(x.size()), expected_dweight(weight.size());
  for (int64_t n = 0; n < shape.rows; ++n) {
    if (targets[static_cast<size_t>(n)] < 0) continue;
    std::vector<double> z(static_cast<size_t>(shape.vocab));
    double total = 0, squares = 0;
    for (int64_t v = 0; v < shape.vocab; ++v) {
      for (int64_t i = 0; i < shape.width; ++i)
        z[static_cast<size_t>(v)] += x[static_cast<size_t>(n * shape.width + i)] *
                                     weight[static_cast<size_t>(v * shape.width + i)];
      total += std::exp(z[static_cast<size_t>(v)]);
      squares += z[static_cast<size_t>(v)] * z[static_cast<size_t>(v)];
    }
    const int64_t target = targets[static_cast<size_t>(n)];
    loss += std::log(total) - z[static_cast<size_t>(target)];
    norms += std::sqrt(squares);
    for (int64_t v = 0; v < shape.vocab; ++v) {
      const double dz = 0.5 * (std::exp(z[static_cast<size_t>(v)]) / total - (v == target ? 1 : 0));
      for (int64_t i = 0; i < shape.width; ++i) {
        const auto xi = static_cast<size_t>(n * shape.width + i),
                   wi = static_cast<size_t>(v * shape.width + i);
        expected_dx[xi] += dz * weight[wi];
        expected_dweight[wi] += dz * x[xi];
      }
    }
  }
  EXPECT_EQ(sums.count, 270);
  EXPECT_NEAR(sums.loss, loss, 1e-9);
  EXPECT_NEAR(sums.logit_norm, norms, 1e-9);
  for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected_dx[i], 1e-12);
  for (size_t i = 0; i < dweight.size(); ++i) ASSERT_NEAR(dweight[i], expected_dweight[i], 1e-11);
}

TEST(FoldOp, ThereAndBack_IsTheSameOnAnyTeam) {
  const int64_t out = 150, in = 70;
  const Floats weight = draws(out * in, 1), gamma_t = draws(in, 2), gradient = draws(out * in, 3);
  expect_one_result([&](const OpContext& context) {
    Floats folded(weight.size()), own = gradient, dweight(weight.size()),
                                  dgamma_t(static_cast<size_t>(in));
    fold_forward<float>(context.team, out, in, weight.data(), gamma_t.data(), 0.7f, folded.data());
    EXPECT_FLOAT_EQ(folded[static_cast<size_t>(in + 3)],
                    weight[static_cast<size_t>(in + 3)] * (0.7f * gamma_t[3]));
    const std::vector<float*> gradients = {own.data()};
    fold_backward<float>(context.team, {gradients, weight.data(), gamma_t.data(), 0.7f,
                                        dweight.data(), dgamma_t.data(), out, in});
    folded.insert(folded.end(), dweight.begin(), dweight.end());
    folded.insert(folded.end(), dgamma_t.begin(), dgamma_t.end());
    return folded;
  });
}

TEST(AdamWOp, AnyTeam_GivesTheSameBits) {
  const int64_t count = 100'003;  // several blocks
  const Floats values = draws(count, 1), gradients = draws(count, 2);
  expect_one_result([&](const OpContext& context) {
    Floats p = values, m(p.size()), v(p.size());
    AdamWOptions options;
    options.learning_rate = 1e-2;
    options.weight_decay = 0.1;
    for (options.step = 1; options.step <= 3; ++options.step)
      adamw_update(context.team, options, p, gradients, m, v);
    p.push_back(static_cast<float>(sum_of_squares(context.team, gradients)));
    return p;
  });
}

TEST(SumOfSquaresOp, ABadElementAnywhere_MakesItNotFinite) {
  ThreadPool team(2);
  for (const size_t at : {size_t{0}, size_t{40'000}, size_t{99'999}}) {
    Floats values(100'000, 1e-3f);
    EXPECT_NEAR(sum_of_squares(team, values), 0.1, 1e-6);
    values[at] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(sum_of_squares(team, values)));
    values[at] = NAN;
    EXPECT_FALSE(std::isfinite(sum_of_squares(team, values)));
  }
}

}  // namespace
}  // namespace taper
