// The training graph's ops against plain torch formulas, their checks, and what must be exact.
#include "train/ops/ops.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "train/ops/optimizer.h"

namespace taper::ops {
namespace {

using torch::Tensor;

// Largest |a - b| relative to the largest |b|.
double distance(const Tensor& a, const Tensor& b) {
  const Tensor expected = b.to(at::kDouble);
  return ((a.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

Tensor rotate(const Tensor& x_BHTK, const RopeTables& rope) {
  const int64_t time = x_BHTK.size(2), half = x_BHTK.size(3) / 2;
  const Tensor c = rope.cos.slice(0, 0, time), s = rope.sin.slice(0, 0, time);
  const Tensor a = x_BHTK.slice(3, 0, half), b = x_BHTK.slice(3, half);
  return at::cat({a * c - b * s, b * c + a * s}, 3);
}

Tensor plain_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads, const RopeTables& rope) {
  const int64_t batch = qkv.size(0), time = qkv.size(1);
  const Tensor x = qkv.view({batch, time, heads + 2 * kv_heads, -1}).transpose(1, 2);
  const Tensor q = rotate(x.slice(1, 0, heads), rope);
  const Tensor k = rotate(x.slice(1, heads, heads + kv_heads), rope);
  const Tensor v = x.slice(1, heads + kv_heads);
  const int64_t repeat = heads / kv_heads;
  const Tensor out =
      at::scaled_dot_product_attention(q, k.repeat_interleave(repeat, 1),
                                       v.repeat_interleave(repeat, 1), {}, 0.0, /*is_causal=*/true);
  return out.transpose(1, 2).reshape({batch, time, -1});
}

class Ops : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    at::set_num_threads(1);
  }
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(Ops, Attention_MatchesTorchForwardAndBackward) {
  for (const int64_t width : {4, 6, 8, 32, 64, 128}) {
    const RopeTables rope = rope_tables(80, width, 10000.0);
    Tensor qkv = at::randn({2, 70, 10 * width}).requires_grad_();
    const Tensor weights = at::randn({2, 70, 6 * width});
    const Tensor expected = plain_attention(qkv, 6, 2, rope);
    (expected * weights).sum().backward();
    const Tensor gradient = qkv.grad().clone();
    qkv.mutable_grad() = Tensor();
    const Tensor out = causal_attention(qkv, 6, 2, rope.cos, rope.sin);
    (out * weights).sum().backward();
    EXPECT_LT(distance(out, expected), 2e-6) << width;
    EXPECT_LT(distance(qkv.grad(), gradient), 5e-6) << width;

    Tensor half = qkv.detach().to(at::kBFloat16).requires_grad_();
    const Tensor out16 = causal_attention(half, 6, 2, rope.cos, rope.sin);
    (out16 * weights).sum().backward();
    EXPECT_EQ(out16.scalar_type(), at::kBFloat16);
    EXPECT_LT(distance(out16, expected), 2e-2) << width;
    EXPECT_LT(distance(half.grad(), gradient), 3e-2) << width;
  }
}

TEST_F(Ops, TaperNorm_MatchesTorchAndKeepsTheInputsType) {
  const Tensor h = at::randn({300, 229}) * 3, gamma = at::rand({229}) + 0.5;
  const Tensor gamma_t = at::rand({229}) + 0.5;
  const Tensor r = (h.square().mean(-1, true) + 1e-5).sqrt();
  for (const double gate : {0.0, 0.3, 1.0}) {
    const Tensor expected = gate * h / r * gamma + (1 - gate) * 0.4 * h * gamma_t;
    const Tensor y = taper_rms_norm(h, gamma, gamma_t, 0.4, gate, 1e-5);
    EXPECT_LT(distance(y, expected), 1e-6);
    const Tensor half = taper_rms_norm(h.to(at::kBFloat16), gamma, gamma_t, 0.4, gate, 1e-5);
    EXPECT_EQ(half.scalar_type(), at::kBFloat16);
    EXPECT_LT(distance(half, expected), 1e-2);
  }
  EXPECT_TRUE(
      at::equal(taper_rms_norm(h, gamma, gamma_t, 0.4, 1.0, 1e-5), rms_norm(h, gamma, 1e-5)));
}

TEST_F(Ops, NormSums_AddOverCallsAndLeaveMaskedRowsOut) {
  const Tensor h = at::randn({600, 12}) * 2, gamma = at::rand({12}) + 0.5;
  const Tensor mask = at::rand({600}) < 0.7;
  const Tensor r = (h.square().mean(-1) + 1e-5).sqrt().masked_select(mask).to(at::kDouble);
  const Tensor square = (h * gamma).square().sum(-1).masked_select(mask).to(at::kDouble);
  NormSums sums;
  taper_rms_norm(h, gamma, {}, 0, 1, 1e-5, &sums, mask);
  EXPECT_EQ(sums.rows, mask.sum().item<int64_t>());
  EXPECT_NEAR(sums.numerator / (square / r).sum().item<double>(), 1, 1e-6);
  EXPECT_NEAR(sums.denominator / square.sum().item<double>(), 1, 1e-6);
  EXPECT_NEAR(sums.scale / r.sum().item<double>(), 1, 1e-6);
  const NormSums once = sums;
  taper_rms_norm(h, gamma, {}, 0, 1, 1e-5, &sums, mask);
  EXPECT_NEAR(sums.numerator / once.numerator, 2, 1e-12);
  const ScaleSum scale = residual_scale(h, 1e-5, mask);
  EXPECT_EQ(scale.count, once.rows);
  EXPECT_NEAR(scale.scale_sum / once.scale, 1, 1e-12);
  const AnchorLoss anchor = anchor_loss(h, 2.0, 1e-5, mask);
  EXPECT_EQ(anchor.count, once.rows);
  EXPECT_NEAR(anchor.loss_sum.item<double>() / (r - 2).square().sum().item<double>(), 1, 1e-6);
}

TEST_F(Ops, HeadCrossEntropy_MatchesTorchOverManyChunks) {
  // 700 rows of 9,001 logits are several chunks.
  Tensor hidden = at::randn({7, 100, 24}).requires_grad_(),
         weight = at::randn({9001, 24}).requires_grad_();
  Tensor targets = at::randint(9001, {7, 100}, at::kLong);
  targets[3][5] = targets[6][99] = kIgnoredTarget;
  const Tensor logits = at::matmul(hidden, weight.t()).view({700, 9001});
  const Tensor expected =
      at::cross_entropy_loss(logits, targets.view({-1}), {}, at::Reduction::Sum);
  (expected / 698).backward();
  const Tensor dhidden = hidden.grad().clone(), dweight = weight.grad().clone();
  hidden.mutable_grad() = weight.mutable_grad() = Tensor();
  const HeadLoss loss = head_cross_entropy(hidden, weight, targets);
  (loss.loss_sum / 698).backward();
  EXPECT_EQ(loss.count, 698);
  EXPECT_NEAR(loss.loss_sum_value / expected.item<double>(), 1, 1e-6);
  const Tensor counted = targets.view({-1}).ne(kIgnoredTarget);
  EXPECT_NEAR(loss.logit_norm_sum / (logits.norm(2, -1) * counted).sum().item<double>(), 1, 1e-6);
  EXPECT_LT(distance(hidden.grad(), dhidden), 5e-6);
  EXPECT_LT(distance(weight.grad(), dweight), 5e-6);
  const Tensor losses = head_token_losses(hidden, weight, targets);
  EXPECT_EQ(losses.sizes(), targets.sizes());
  EXPECT_NEAR(losses.sum().item<double>() / expected.item<double>(), 1, 1e-5);
  EXPECT_EQ(losses[3][5].item<float>(), 0);
  Tensor half = hidden.detach().to(at::kBFloat16).requires_grad_();
  head_cross_entropy(half, weight, targets).loss_sum.backward();
  EXPECT_EQ(half.grad().scalar_type(), at::kBFloat16);
  EXPECT_LT(distance(half.grad() / 698, dhidden), 3e-2);
}

TEST_F(Ops, LinearAndEmbeddingInBf16_KeepFloatGradients) {
  Tensor weight = at::randn({31, 40}).requires_grad_();
  Tensor x = at::randn({9, 40}).to(at::kBFloat16).requires_grad_();
  const Tensor y = ops::linear(x, weight);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const Tensor dy = at::randn({9, 31}).to(at::kBFloat16);
  y.backward(dy);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_LT(distance(weight.grad(), at::mm(dy.to(at::kFloat).t(), x.detach().to(at::kFloat))),
            1e-6);
  Tensor table = at::randn({5, 7}).requires_grad_();
  const Tensor rows = ops::embedding(at::tensor({4L, 0L, 4L}), table, at::kBFloat16);
  EXPECT_TRUE(
      at::equal(rows, table.detach().index_select(0, at::tensor({4L, 0L, 4L})).to(at::kBFloat16)));
  rows.backward(at::ones_like(rows));
  EXPECT_EQ(table.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(table.grad()[4][0].item<float>(), 2);
}

// Outputs and gradients of all ops but the matrix products.
std::vector<Tensor> all_results() {
  torch::manual_seed(3);
  std::vector<Tensor> results;
  const auto add = [&](const Tensor& y, std::vector<Tensor> inputs) {
    y.backward(at::randn_like(y));
    results.push_back(y.detach());
    for (const Tensor& x : inputs) results.push_back(x.grad());
  };
  const auto leaf = [](c10::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); };
  const Tensor h = leaf({777, 33}), gamma = leaf({33}), gamma_t = leaf({33});
  add(taper_rms_norm(h, gamma, gamma_t, 0.5, 0.5, 1e-5), {h, gamma, gamma_t});
  const Tensor gate_up = leaf({777, 34}), qkv = leaf({3, 50, 40}), table = leaf({20, 9});
  add(swiglu(gate_up), {gate_up});
  const RopeTables rope = rope_tables(50, 8, 100.0);
  add(causal_attention(qkv, 3, 1, rope.cos, rope.sin), {qkv});
  add(ops::embedding(at::randint(20, {400}, at::kLong), table), {table});
  return results;
}

TEST_F(Ops, AnyNumberOfThreads_GivesTheSameBits) {
  at::set_num_threads(1);
  const auto one = all_results();
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    const auto many = all_results();
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], many[i])) << i;
  }
}

template <class Call>
std::string shape_error(const Call& call) {
  try {
    call();
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no ShapeError";
}

TEST_F(Ops, WrongTypesAndShapes_AreErrorsThatNameBothSides) {
  const Tensor h = at::randn({4, 6}), gamma = at::ones({6});
  const auto expect = [](const std::string& message, const char* pattern) {
    EXPECT_THAT(message, testing::ContainsRegex(pattern));
  };
  expect(shape_error([&] { rms_norm(h, gamma.to(at::kDouble), 1e-5); }), "Double.*Float");
  expect(shape_error([&] { rms_norm(h, at::ones({5}), 1e-5); }), "5.*6");
  expect(shape_error([&] { rms_norm(h.to(at::kHalf), gamma, 1e-5); }), "Half");
  expect(shape_error([&] { taper_rms_norm(h, gamma, {}, 1, 0.5, 1e-5); }), "gamma_t is undefined");
  expect(shape_error([&] { ops::linear(h, at::ones({3, 5})); }), "3, 5.*6");
  expect(shape_error([&] { swiglu(at::ones({2, 3})); }), "2, 3");
  expect(shape_error([&] {
           ops::embedding(at::tensor({1L, 9L}), at::ones({9, 2}));
         }),
         "id 9.*position 1.*9");
  expect(shape_error([&] {
           head_cross_entropy(h, at::ones({3, 6}), at::tensor({0L, 1L, 3L, 0L}));
         }),
         "target 3 at row 2.*3");
  const RopeTables rope = rope_tables(4, 6, 100.0);
  const Tensor qkv = at::ones({1, 5, 18});
  expect(shape_error([&] { causal_attention(qkv, 1, 1, rope.cos, rope.sin); }),
         "rope_cos.*4, 3.*5, 3");
  expect(shape_error([&] { causal_attention(qkv, 3, 2, rope.cos, rope.sin); }), "3 query heads.*2");
  EXPECT_THROW(taper_rms_norm(h, gamma, gamma, 1, 1.5, 1e-5), ConfigError);
}

TEST_F(Ops, OptimizerSweep_MatchesTorchsAdamW) {
  const Tensor start = at::randn({70001});
  Tensor p = start.clone(), m = at::zeros_like(p), v = at::zeros_like(p);
  Tensor peer = start.clone().requires_grad_();
  torch::optim::AdamW adamw(
      {peer}, torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).eps(1e-8).weight_decay(0.1));
  const auto span = [](Tensor& t) {
    return std::span<float>(t.mutable_data_ptr<float>(), static_cast<size_t>(t.numel()));
  };
  for (int64_t step = 1; step <= 4; ++step) {
    Tensor g = at::randn_like(p);
    peer.mutable_grad() = g.clone() * 0.25;
    adamw.step();
    adamw_update({.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.25, .step = step},
                 span(p), span(g), span(m), span(v));
    EXPECT_NEAR(sum_of_squares(span(g)) / g.to(at::kDouble).square().sum().item<double>(), 1,
                1e-12);
    EXPECT_EQ(first_non_finite(span(g)), -1);
  }
  EXPECT_LT(distance(p, peer.detach()), 1e-6);
}

}  // namespace
}  // namespace taper::ops
