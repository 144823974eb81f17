// Runs of many steps with the training pass: the losses of the graph's run, and memory at rest.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "train/fused/transformer.h"
#include "train/optimizer.h"
#include "train/random_model.h"

namespace taper {
namespace {

constexpr int64_t kBatch = 8, kTime = 16;

// Something to learn: each window counts up modulo the vocabulary from a random place, by 1 or 2.
torch::Tensor counting_ids(int64_t vocab, int64_t step) {
  torch::Tensor ids = torch::empty({kBatch, kTime + 1}, torch::kInt64);
  Random random(static_cast<uint64_t>(step), 3);
  for (int64_t row = 0; row < kBatch; ++row) {
    const auto start = static_cast<int64_t>(random.below(static_cast<uint64_t>(vocab)));
    const auto stride = static_cast<int64_t>(1 + random.below(2));
    for (int64_t t = 0; t <= kTime; ++t) ids[row][t] = (start + t * stride) % vocab;
  }
  return ids;
}

double gate_of(int64_t step) { return std::clamp(1 - static_cast<double>(step - 20) / 40, 0., 1.); }

enum class Path { kGraph, kFloat, kBF16 };

// Mean losses of `steps` steps of AdamW with clipping, the gate falling from 1 to 0 on the way.
std::vector<double> losses(Path path, int64_t steps) {
  const ModelConfig config = test::tiny_config();
  Transformer model = test::tapered_model(config, TaperScope::kInternal, torch::kFloat32);
  FusedTransformer pass(config, path == Path::kBF16 ? Activations::kBF16 : Activations::kFloat);
  AdamW weights(model.parameters(), {}), taper_weights(model.taper_parameters(), {});
  std::vector<double> all;
  for (int64_t step = 0; step < steps; ++step) {
    const torch::Tensor tokens = counting_ids(config.vocab_size, step);
    const torch::Tensor ids = tokens.narrow(1, 0, kTime).contiguous();
    const torch::Tensor targets = tokens.narrow(1, 1, kTime).contiguous();
    const double weight = 1.0 / (kBatch * kTime);
    if (path == Path::kGraph) {
      ForwardOptions options;
      options.gate = gate_of(step);
      const ForwardResult result = model.forward(ids, targets, options);
      (result.loss_sum * weight).backward();
      all.push_back(result.loss_value * weight);
    } else {
      PassOptions options;
      options.gate = gate_of(step);
      options.backward = true;
      options.loss_weight = weight;
      all.push_back(weight *
                    pass.run(model.fused_parameters(false),
                             {ids.data_ptr<int64_t>(), targets.data_ptr<int64_t>(), kBatch, kTime},
                             options)
                        .loss);
    }
    const double squared = weights.squared_gradient_norm() + taper_weights.squared_gradient_norm();
    const double scale = std::min(1.0, 1 / std::sqrt(squared));
    weights.step(3e-3, scale);
    taper_weights.step(3e-3, scale);
    weights.clear_gradients();
    taper_weights.clear_gradients();
  }
  return all;
}

double mean_of_last(const std::vector<double>& values, int64_t count) {
  return std::accumulate(values.end() - count, values.end(), 0.0) / static_cast<double>(count);
}

TEST(TrainingRun, Losses_AreThoseOfTheGraph) {
  const int64_t steps = 80;
  const std::vector<double> expected = losses(Path::kGraph, steps);
  const std::vector<double> ours = losses(Path::kFloat, steps);
  ASSERT_LT(mean_of_last(expected, 10), 0.7 * expected.front()) << "nothing was learnt";
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-4) << i;
}

TEST(TrainingRun, BFloat16_LearnsAsWell) {
  const int64_t steps = 200;
  const double expected = mean_of_last(losses(Path::kFloat, steps), 50);
  EXPECT_NEAR(mean_of_last(losses(Path::kBF16, steps), 50) / expected, 1, 0.03);
}

int64_t page_faults() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(TrainingRun, AfterTwoSteps_NoPageIsNew) {
  ModelConfig config = test::tiny_config();
  config.context = 128;
  Transformer model = test::tapered_model(config, TaperScope::kInternal, torch::kFloat32);
  FusedTransformer pass(config, Activations::kFloat);
  AdamW weights(model.parameters(), {});
  const torch::Tensor ids = test::random_ids(32, 128, config.vocab_size, 1);
  PassOptions options;
  options.gate = 0.5;
  options.backward = true;
  const auto step = [&] {
    pass.run(model.fused_parameters(false),
             {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), 32, 128}, options);
    weights.squared_gradient_norm();
    weights.step(1e-3, 1);
    weights.clear_gradients();
  };
  step();
  step();
  const int64_t before = page_faults();
  for (int i = 0; i < 5; ++i) step();
  // Activations alone are some hundred pages.
  EXPECT_GT(FusedTransformer::memory_bytes(config, Activations::kFloat, false, 32, 128, 1),
            200 * 4096);
  EXPECT_LE(page_faults() - before, 16);
}

}  // namespace
}  // namespace taper
