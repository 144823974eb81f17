// What the inner loops of training cost, in instructions: a regression of a kernel shows here on
// any machine, however busy. A vector is the widest of the target.
#include "kernels/instruction_count.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <functional>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/attention_train.h"
#include "kernels/cross_entropy.h"
#include "kernels/storage.h"
#include "kernels/swiglu.h"
#include "kernels/taper_norm.h"

namespace taper {
namespace {

using test::at;

std::vector<float> values(int64_t count, uint64_t seed) {
  return test::stored<float>(test::random_values(count, seed));
}

struct Limits {
  double avx3, avx2;  // instructions for one vector of elements
};

// Counts `body` over `elements` on the best target here.
void expect_at_most(int64_t elements, const Limits& limits, const std::function<void()>& body) {
#if !defined(NDEBUG) || __GNUC__ != 12
  GTEST_SKIP() << "the limits are for optimised builds by GCC 12";
#endif
  const bool avx3 = hwy::SupportedTargets() & HWY_AVX3;
  if (!avx3 && !(hwy::SupportedTargets() & HWY_AVX2)) GTEST_SKIP() << "no target with limits";
  const auto count = test::count_instructions(body);
  if (!count) GTEST_SKIP() << "this system lets no process count another's steps";
  const int64_t lanes = avx3 ? 16 : 8;
  EXPECT_LE(static_cast<double>(*count * lanes) / static_cast<double>(elements),
            avx3 ? limits.avx3 : limits.avx2);
}

// Elements are pairs of a query and a key that it sees. The least: 2 K multiply-adds forward, 5 K
// backward, and an exponential each.
struct Attention {
  AttentionShape shape;
  std::vector<float> qkv, dout, cosines, sines, out, lse, dqkv, scratch;

  explicit Attention(int64_t width) : shape{1, 64, 1, 1, width} {
    qkv = values(shape.time * shape.row(), 1);
    dout = values(shape.time * width, 2);
    cosines.assign(at(shape.time * width / 2), 1.0f);
    sines.assign(at(shape.time * width / 2), 0.0f);
    out.resize(at(shape.time * width));
    lse.resize(at(shape.time));
    dqkv.resize(qkv.size());
    scratch.resize(
        at(std::max(attention_forward_scratch(shape), attention_backward_scratch(shape))));
  }
  int64_t pairs() const { return shape.time * (shape.time + 1) / 2; }
  void forward() {
    attention_forward_groups<float>(shape, {0, 1}, qkv.data(), cosines.data(), sines.data(),
                                    out.data(), lse.data(), scratch.data());
  }
  void backward() {
    attention_backward_groups<float>(shape, {0, 1}, qkv.data(), cosines.data(), sines.data(),
                                     out.data(), lse.data(), dout.data(), dqkv.data(),
                                     scratch.data());
  }
};

TEST(InstructionCount, Attention) {
  Attention a(8);
  expect_at_most(
      a.pairs(), {205, 140}, [&] { a.forward(); });
  expect_at_most(a.pairs(), {345, 262}, [&] { a.backward(); });
}

TEST(InstructionCount, CrossEntropy) {
  const int64_t vocab = 1024;
  const int64_t target = 3;
  std::vector<float> logits = values(vocab, 1);
  double loss = 0, square = 0;
  const CrossEntropyArgs<float> args{vocab, &target, logits.data(), logits.data(),
                                     1,     &loss,   &square};
  expect_at_most(vocab, {33.5, 35.5}, [&] { cross_entropy_rows<float>(args, {0, 1}); });
}

TEST(InstructionCount, TaperedNorm) {
  const int64_t rows = 4, width = 256;
  const auto gamma = values(width, 1), gamma_t = values(width, 2), h = values(rows * width, 3);
  std::vector<float> y(h.size()), dh(h.size()), rstd(at(rows)), dgamma(at(width)),
      dgamma_t(at(width));
  const TaperNormArgs<float> args{gamma.data(), gamma_t.data(), 0.9f, 0.5f, 1e-5f, width};
  expect_at_most(
      rows * width, {22.5, 19},
      [&] {
        taper_rms_norm_forward<float>(args, {0, rows}, h.data(), y.data(), rstd.data());
      });
  expect_at_most(rows * width, {34, 30.5}, [&] {
    taper_rms_norm_backward<float>(args, {0, rows}, h.data(), h.data(), rstd.data(), h.data(),
                                   dh.data(), dgamma.data(), dgamma_t.data(), y.data());
  });
}

TEST(InstructionCount, Swiglu) {
  const int64_t rows = 2, width = 512;
  const auto gate_up = values(rows * 2 * width, 1), dy = values(rows * width, 2);
  std::vector<float> y(dy.size()), dgate_up(gate_up.size());
  expect_at_most(
      rows * width, {31.5, 30.5},
      [&] {
        swiglu_forward_rows<float>({0, rows}, width, gate_up.data(), y.data());
      });
  expect_at_most(rows * width, {43.5, 42}, [&] {
    swiglu_backward_rows<float>({0, rows}, width, gate_up.data(), dy.data(), dgate_up.data(),
                                y.data());
  });
}

TEST(InstructionCount, AdamW) {
  const int64_t count = 1024;
  auto p = values(count, 1), g = values(count, 2), m = values(count, 3), v = values(count, 4);
  for (float& x : v) x *= x;
  const AdamWOptions options{.learning_rate = 1e-3, .weight_decay = 0.1};
  expect_at_most(count, {29, 26}, [&] {
    adamw_range(options, {0, count}, p.data(), g.data(), m.data(), v.data());
  });
}

}  // namespace
}  // namespace taper
