// Every op of the training graph against central differences of itself, in double.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "train/ops/ops.h"

namespace taper::ops {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

Tensor random_tensor(c10::IntArrayRef sizes, double spread = 1, double mean = 0) {
  return at::randn(sizes, at::kDouble).mul_(spread).add_(mean);
}

// The gradients of <weights, f(inputs)> by autograd and by central differences.
void check_gradients(const Function& f, const Tensors& values_of_inputs) {
  Tensors inputs;
  for (const Tensor& x : values_of_inputs) inputs.push_back(x.clone().requires_grad_(true));
  const Tensor y = f(inputs);
  const Tensor weights = at::randn_like(y);
  (y * weights).sum().backward();
  const double step = 1e-5;
  for (size_t n = 0; n < inputs.size(); ++n) {
    Tensor x = inputs[n].detach();
    const Tensor gradient = inputs[n].grad();
    ASSERT_TRUE(gradient.defined()) << "input " << n;
    ASSERT_EQ(gradient.sizes(), x.sizes());
    const at::NoGradGuard no_grad;
    double* values = x.mutable_data_ptr<double>();
    const Tensor flat = gradient.reshape({-1});
    const double largest = gradient.abs().max().item<double>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double before = values[i];
      values[i] = before + step;
      const double above = (f(inputs) * weights).sum().item<double>();
      values[i] = before - step;
      const double below = (f(inputs) * weights).sum().item<double>();
      values[i] = before;
      ASSERT_NEAR(flat[i].item<double>(), (above - below) / (2 * step), 1e-7 * (1 + largest))
          << "input " << n << " element " << i;
    }
  }
}

class OpsGradient : public testing::Test {
 protected:
  // One thread: the tensors are tiny, and there are many calls.
  void SetUp() override {
    torch::manual_seed(17);
    at::set_num_threads(1);
  }
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(OpsGradient, TaperNorm_AnyGateAndWidth) {
  for (const int64_t width : {1, 3, 29}) {
    const Tensors inputs{random_tensor({2, 3, width}, 2, 0.5), random_tensor({width}, 0.3, 1),
                         random_tensor({width}, 0.3, 1)};
    for (const double gate : {0.0, 0.3, 1.0}) {
      SCOPED_TRACE(testing::Message() << "width " << width << " gate " << gate);
      check_gradients(
          [&](const Tensors& x) { return taper_rms_norm(x[0], x[1], x[2], 0.6, gate, 1e-5); },
          inputs);
    }
    check_gradients([](const Tensors& x) { return rms_norm(x[0], x[1], 1e-5); },
                    {inputs[0], inputs[1]});
  }
}

TEST_F(OpsGradient, Anchor_WithAndWithoutAMask) {
  const Tensors inputs{random_tensor({7, 5}, 2)};
  const Tensor mask = at::tensor({1, 0, 1, 1, 0, 1, 1}).to(at::kBool);
  for (const Tensor& used : {Tensor(), mask}) {
    check_gradients([&](const Tensors& x) { return anchor_loss(x[0], 1.2, 1e-5, used).loss_sum; },
                    inputs);
  }
}

TEST_F(OpsGradient, Attention_GroupedHeadsAndOddTimes) {
  struct Case {
    int64_t batch, time, heads, kv_heads, width;
  };
  for (const Case& c :
       {Case{2, 5, 4, 1, 4}, Case{1, 9, 6, 2, 6}, Case{1, 7, 3, 3, 8}, Case{1, 4, 3, 1, 32}}) {
    SCOPED_TRACE(c.width);
    const RopeTables rope = rope_tables(c.time + 3, c.width, 100.0, at::kDouble);
    check_gradients(
        [&](const Tensors& x) {
          return causal_attention(x[0], c.heads, c.kv_heads, rope.cos, rope.sin);
        },
        {random_tensor({c.batch, c.time, (c.heads + 2 * c.kv_heads) * c.width})});
  }
}

TEST_F(OpsGradient, SwigluLinearAndEmbedding) {
  for (const int64_t width : {1, 3, 11}) {
    check_gradients([](const Tensors& x) { return swiglu(x[0]); },
                    {random_tensor({2, 3, 2 * width}, 2)});
    check_gradients([](const Tensors& x) { return ops::linear(x[0], x[1]); },
                    {random_tensor({2, 3, width}), random_tensor({5, width})});
    const Tensor ids = at::tensor({0L, 3L, 3L, 6L, 3L, 1L}).view({2, 3});
    check_gradients([&](const Tensors& x) { return ops::embedding(ids, x[0]); },
                    {random_tensor({7, width})});
  }
}

TEST_F(OpsGradient, HeadCrossEntropy_IgnoredRowsAndAScaledLoss) {
  for (const int64_t vocab : {1, 3, 41}) {
    const Tensor targets = at::tensor({0L, kIgnoredTarget, vocab - 1, vocab / 2, kIgnoredTarget});
    check_gradients(
        [&](const Tensors& x) { return head_cross_entropy(x[0], x[1], targets).loss_sum / 3; },
        {random_tensor({5, 6}), random_tensor({vocab, 6})});
  }
}

TEST_F(OpsGradient, TiedEmbeddingAndHead_AddUp) {
  const Tensor ids = at::tensor({2L, 0L, 4L}), targets = at::tensor({0L, 4L, 1L});
  check_gradients(
      [&](const Tensors& x) {
        return head_cross_entropy(ops::embedding(ids, x[0]), x[0], targets).loss_sum;
      },
      {random_tensor({5, 3})});
}

}  // namespace
}  // namespace taper::ops
