// The pass in float and bf16 against the one in double, and what must not change a result: threads,
// lanes, micro-batches, other shapes before.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "train/optimizer.h"
#include "train/pass/training_pass.h"
#include "train/pass_case.h"

namespace taper {
namespace {

using test::gradients_of;
using test::PassCase;
using test::random_batch;
using test::random_model;
using test::relative_error;

struct Result {
  PassSums sums;
  std::vector<double> gradients;
};

template <typename R>
Result run(ModelParameters<R> model, Activations activations, const Batch& batch,
           const PassOptions& options, int threads = 1) {
  ThreadPool pool(threads);
  TrainingPass<R> pass(model, activations, pool);
  const PassSums sums = pass.run(batch.view(), options);
  return {sums, gradients_of(model)};
}

void expect_close(const ModelParameters<double>& model, const Result& ours, const Result& right,
                  double tolerance) {
  EXPECT_EQ(ours.sums.count, right.sums.count);
  EXPECT_EQ(ours.sums.scale_count, right.sums.scale_count);
  EXPECT_NEAR(ours.sums.loss / right.sums.loss, 1, tolerance);
  EXPECT_NEAR(ours.sums.logit_norm / right.sums.logit_norm, 1, tolerance);
  EXPECT_NEAR(ours.sums.scale / right.sums.scale, 1, tolerance);
  EXPECT_NEAR(ours.sums.anchor, right.sums.anchor, 3 * tolerance * right.sums.anchor);
  for (const ParameterSlice& slice : model.layout().slices()) {
    const auto part = [&](const std::vector<double>& all) {
      return std::span(all).subspan(static_cast<size_t>(slice.range.begin),
                                    static_cast<size_t>(slice.range.size()));
    };
    EXPECT_LT(relative_error(part(ours.gradients), part(right.gradients)), 3 * tolerance)
        << slice.name;
  }
}

class TrainingPassOfCase : public testing::TestWithParam<PassCase> {};

TEST_P(TrainingPassOfCase, FloatAndBFloat16_MatchDouble) {
  const PassCase& c = GetParam();
  const ModelConfig config = test::tiny_config(c.tied);
  // Longer than a block of rows of the norms; one target is not counted.
  Batch batch = random_batch(41, 7, config.vocab_size);
  batch.targets[25] = -1;
  const auto model = random_model<double>(config, c.scope);
  const auto right =
      run(random_model<double>(config, c.scope), Activations::kFull, batch, c.options());
  for (const int threads : {1, 2}) {
    expect_close(
        model,
        run(random_model<float>(config, c.scope), Activations::kFull, batch, c.options(), threads),
        right, 2e-6);
    expect_close(
        model,
        run(random_model<float>(config, c.scope), Activations::kBF16, batch, c.options(), threads),
        right, 2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, TrainingPassOfCase, testing::ValuesIn(test::kPassCases));

// The shapes that people train: wide heads, long windows, chunks of the head, many blocks of rows.
TEST(TrainingPass, RealSizes_MatchDoubleInFloatAndBFloat16) {
  ModelConfig config;
  config.vocab_size = 4099;
  config.width = 256;
  config.num_layers = 2;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_width = 32;
  config.ffn_width = 683;
  config.context = 192;
  const Batch batch = random_batch(2, 192, config.vocab_size);
  for (const double gate : {1.0, 0.5, 0.0}) {
    SCOPED_TRACE(testing::Message() << "gate " << gate);
    PassOptions options = PassCase{TaperScope::kInternal, gate, true, true, false}.options();
    const auto model = random_model<double>(config, TaperScope::kInternal, 5, 0.05);
    const auto right = run(random_model<double>(config, TaperScope::kInternal, 5, 0.05),
                           Activations::kFull, batch, options, 2);
    for (const auto& [activations, tolerance] :
         {std::pair{Activations::kFull, 5e-6}, {Activations::kBF16, 2e-2}})
      expect_close(model,
                   run(random_model<float>(config, TaperScope::kInternal, 5, 0.05), activations,
                       batch, options, 2),
                   right, tolerance);
  }
}

TEST(TrainingPass, SecondPass_AddsToTheGradientsAndForwardAloneChangesNone) {
  auto model = random_model<float>(test::tiny_config(), TaperScope::kAll);
  ThreadPool pool(2);
  TrainingPass<float> pass(model, Activations::kFull, pool);
  const Batch batch = random_batch(9, 7, 23);
  for (const double gate : {0.4, 0.0}) {
    PassOptions options = PassCase{TaperScope::kAll, gate, true, true, false}.options();
    model.clear_gradients(pool);
    const double loss = pass.run(batch.view(), options).loss;
    const std::vector<double> once = gradients_of(model);
    options.backward = false;
    EXPECT_EQ(pass.run(batch.view(), options).loss, loss);
    EXPECT_EQ(gradients_of(model), once);
    options.backward = true;
    pass.run(batch.view(), options);
    std::vector<double> twice = once;
    for (double& g : twice) g *= 2;
    EXPECT_LT(relative_error(gradients_of(model), twice), 1e-5);
  }
}

TEST(TrainingPass, OtherShapesBetween_LeaveNothingBehind) {
  const ModelConfig config = test::tiny_config();
  auto model = random_model<float>(config, TaperScope::kNone);
  ThreadPool pool(3);
  TrainingPass<float> pass(model, Activations::kFull, pool);
  const auto loss = [&](int64_t rows, int64_t window) {
    return pass.run(random_batch(rows, window, config.vocab_size).view(), {}).loss;
  };
  const double small = loss(2, 3), large = loss(9, 8), single = loss(1, 16);
  EXPECT_EQ(loss(2, 3), small);
  EXPECT_EQ(loss(9, 8), large);
  EXPECT_EQ(loss(1, 16), single);
  EXPECT_EQ(loss(2, 3), small);
}

// More windows than go through together, split over lanes or within one, in unequal parts; fewer
// windows than threads, so that lanes own teams.
TEST(TrainingPass, AnyNumberOfThreads_GivesTheSameGradients) {
  const ModelConfig config = test::tiny_config();
  PassOptions options = PassCase{TaperScope::kInternal, 0.3, true, true, true}.options();
  for (const double gate : {0.3, 0.0}) {
    options.gate = gate;
    for (const int64_t rows : {311, 2, 1}) {
      const Batch batch = random_batch(rows, 5, config.vocab_size);
      const auto gradients = [&](int threads) {
        return run(random_model<float>(config, TaperScope::kInternal), Activations::kFull, batch,
                   options, threads)
            .gradients;
      };
      const auto expected = gradients(1);
      for (const int threads : {2, 3, 4, 7}) {
        EXPECT_LT(relative_error(gradients(threads), expected), 1e-6) << threads << " " << rows;
        EXPECT_EQ(gradients(threads), gradients(threads)) << threads << " " << rows;
      }
    }
  }
}

// Micro-batches 2 x 2 against 1 x 4: the same windows, the same sums.
TEST(TrainingPass, MicroBatches_AreOneBatchToRounding) {
  const ModelConfig config = test::tiny_config();
  const Batch whole = random_batch(4, 8, config.vocab_size);
  const auto half = [&](int64_t first) {
    const BatchView all = whole.view();
    return BatchView{all.ids + first * 8, all.targets + first * 8, 2, 8};
  };
  PassOptions options = PassCase{TaperScope::kAll, 0.3, true, true, false}.options();
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    auto together = random_model<float>(config, TaperScope::kAll);
    auto apart = random_model<float>(config, TaperScope::kAll);
    TrainingPass<float> one(together, Activations::kFull, pool);
    TrainingPass<float> two(apart, Activations::kFull, pool);
    const PassSums sums = one.run(whole.view(), options);
    PassSums parts = two.run(half(0), options);
    parts += two.run(half(2), options);
    EXPECT_EQ(parts.count, sums.count);
    EXPECT_NEAR(parts.loss / sums.loss, 1, 1e-6);
    EXPECT_NEAR(parts.anchor / sums.anchor, 1, 1e-6);
    EXPECT_LT(relative_error(gradients_of(apart), gradients_of(together)), 1e-6) << threads;
  }
}

// What a step computes is a sum over windows in one order, however they are cut into micro-batches,
// as long as each goes through its lane alone.
TEST(TrainingPass, MicroBatchesOfWholeLanes_GiveTheSameBits) {
  const ModelConfig config = [] {
    ModelConfig c = test::tiny_config();
    c.context = 512;  // a window fills a lane's micro-batch
    return c;
  }();
  const Batch whole = random_batch(4, 512, config.vocab_size);
  PassOptions options = PassCase{TaperScope::kInternal, 0.3, false, true, false}.options();
  ThreadPool pool(1);
  auto together = random_model<float>(config, TaperScope::kInternal);
  auto apart = random_model<float>(config, TaperScope::kInternal);
  TrainingPass<float>(together, Activations::kFull, pool).run(whole.view(), options);
  TrainingPass<float> two(apart, Activations::kFull, pool);
  const BatchView all = whole.view();
  for (const int64_t first : {0, 2})
    two.run({all.ids + first * 512, all.targets + first * 512, 2, 512}, options);
  EXPECT_EQ(gradients_of(apart), gradients_of(together));
}

// Virtually folded at gate 0, and folded for good: the same products, bit for bit in double, where
// a weight is rounded once in both.
TEST(TrainingPass, GateZero_IsTheFoldedModel) {
  const ModelConfig config = test::tiny_config(/*tied=*/false);
  auto tapered = random_model<double>(config, TaperScope::kAll);
  std::vector<std::string> names = tapered.tapered_names();
  ModelParameters<double> folded(config, TaperScope::kNone, names);
  const ParameterLayout& from = tapered.layout();
  for (const ParameterSlice& slice : folded.layout().slices()) {
    const auto to = test::part(folded.values(), slice.range);
    std::copy_n(tapered.values().begin() + from.offset(slice.place), to.size(), to.begin());
  }
  for (const auto& norm : from.norms()) {
    for (const Place& reader : tapered.architecture().readers(norm.site.index)) {
      double* weight = folded.values().data() + folded.layout().offset(reader);
      const auto& parts = tapered.architecture().parts();
      const auto shape = std::find_if(parts.begin(), parts.end(), [&](const Part& each) {
                           return each.place == reader;
                         })->shape;
      for (int64_t o = 0; o < shape[0]; ++o)
        for (int64_t i = 0; i < shape[1]; ++i)
          weight[o * shape[1] + i] *= tapered.scale(norm.site.index) *
                                      tapered.values()[static_cast<size_t>(norm.gamma_t + i)];
    }
  }
  ThreadPool pool(1);
  const Batch batch = random_batch(3, 9, config.vocab_size);
  PassOptions options;
  options.gate = 0;
  const double loss =
      TrainingPass<double>(tapered, Activations::kFull, pool).run(batch.view(), options).loss;
  options.gate = 1;
  EXPECT_EQ(TrainingPass<double>(folded, Activations::kFull, pool).run(batch.view(), options).loss,
            loss);
}

TEST(TrainingPass, CalibrationAtGateOne_ChangesNoBit) {
  const ModelConfig config = test::tiny_config();
  auto model = random_model<float>(config, TaperScope::kNone);
  ModelParameters<float> in_scope(config, TaperScope::kAll);
  std::copy_n(model.values().begin(), model.layout().weights().end, in_scope.values().begin());
  ThreadPool pool(2);
  const Batch batch = random_batch(60, 8, config.vocab_size);
  PassOptions options;
  const double loss =
      TrainingPass<float>(model, Activations::kFull, pool).run(batch.view(), options).loss;
  TrainingPass<float> pass(in_scope, Activations::kFull, pool);
  options.calibrate = true;
  EXPECT_EQ(pass.run(batch.view(), options).loss, loss);
  // Nor does the start of the taper, as long as the gate is 1.
  in_scope.begin_taper(test::some_scales(config));
  options.calibrate = false;
  EXPECT_EQ(pass.run(batch.view(), options).loss, loss);
  options.gate = 0.5;
  EXPECT_NE(pass.run(batch.view(), options).loss, loss);
}

int64_t page_faults() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsPages = false;
#else
constexpr bool kCountsPages = true;
#endif

TEST(TrainingPass, AfterTwoSteps_NoPageIsNew) {
  if (!kCountsPages) GTEST_SKIP() << "a sanitizer touches pages of its own";
  ModelConfig config = test::tiny_config();
  config.context = 128;
  auto model = random_model<float>(config, TaperScope::kInternal);
  ThreadPool pool(1);
  TrainingPass<float> pass(model, Activations::kFull, pool);
  AdamW weights(model, model.layout().weights(), {}, pool);
  const Batch batch = random_batch(32, 128, config.vocab_size);
  PassOptions options;
  options.gate = 0.5;
  options.backward = true;
  const auto step = [&] {
    pass.run(batch.view(), options);
    weights.squared_gradient_norm();
    weights.step(1e-3, 1);
    model.clear_gradients(pool);
  };
  step();
  step();
  const int64_t before = page_faults();
  for (int i = 0; i < 5; ++i) step();
  // Activations alone are some hundred pages.
  EXPECT_GT(TrainingPass<float>::memory_bytes(Architecture(config), Activations::kFull, false, 32,
                                              128, 1),
            200 * 4096);
  EXPECT_LE(page_faults() - before, 16);
}

// The rotary table is as long as the window, whatever the context: 20 million positions would be
// hundreds of megabytes.
TEST(TrainingPass, LongContext_TakesMemoryForTheWindowOnly) {
  if (!kCountsPages) GTEST_SKIP() << "a sanitizer touches pages of its own";
  ModelConfig config = test::tiny_config();
  config.context = 20'000'000;
  auto model = random_model<float>(config, TaperScope::kNone);
  ThreadPool pool(2);
  const int64_t before = page_faults();
  TrainingPass<float> pass(model, Activations::kFull, pool);
  pass.run(random_batch(2, 16, config.vocab_size).view(), {});
  EXPECT_LT((page_faults() - before) * 4096, 64 << 20);
}

}  // namespace
}  // namespace taper
