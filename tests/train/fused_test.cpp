// The training pass against the graph of torch operations in double, the whole model at a time:
// losses, statistics and every gradient.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "train/fused/transformer.h"
#include "train/random_model.h"

namespace taper {
namespace {

using test::random_ids;
using test::tapered_model;
using test::tiny_config;

struct Case {
  TaperScope scope;
  double gate;
  bool anchor;
  bool tied;
  bool skip_first;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << to_string(c.scope) << " gate " << c.gate << (c.anchor ? " anchor" : "")
               << (c.tied ? " tied" : " untied") << (c.skip_first ? " skip_first" : "");
  }
};

// The same weights in float, from a model in double.
void copy_weights(Transformer& from, Transformer& to) {
  torch::NoGradGuard no_grad;
  to.parameters().values().copy_(from.parameters().values());
  if (from.taper_parameters().size())
    to.taper_parameters().values().copy_(from.taper_parameters().values());
  from.parameters().values().copy_(to.parameters().values());  // the rounded ones
  if (from.taper_parameters().size())
    from.taper_parameters().values().copy_(to.taper_parameters().values());
}

// ||a - b|| / ||b||
double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor wide = a.to(torch::kFloat64);
  const double scale = b.norm().item<double>();
  return (wide - b).norm().item<double>() / std::max(scale, 1e-30);
}

class TrainingPass : public testing::TestWithParam<Case> {};

void compare(const Case& c, Activations activations, double tolerance) {
  const ModelConfig config = tiny_config(c.tied);
  Transformer reference = tapered_model(config, c.scope, torch::kFloat64);
  Transformer model = tapered_model(config, c.scope, torch::kFloat32);
  copy_weights(reference, model);
  // Longer than a block of rows of the norms; one target is not counted.
  const int64_t batch = 41, time = 7;
  const torch::Tensor ids = random_ids(batch, time, config.vocab_size, 1);
  torch::Tensor targets = random_ids(batch, time, config.vocab_size, 2);
  targets[3][4] = ops::kIgnoredTarget;

  ForwardOptions wanted;
  wanted.gate = c.gate;
  wanted.skip_first_position = c.skip_first;
  if (c.anchor) wanted.anchor_target = 1.3;
  const ForwardResult expected = reference.forward(ids, targets, wanted);
  torch::Tensor loss = expected.loss_sum * 0.02;
  if (c.anchor) loss = loss + 0.01 * expected.anchor_sum;
  loss.backward();

  FusedTransformer pass(config, activations);
  PassOptions options;
  options.gate = c.gate;
  options.skip_first_position = c.skip_first;
  options.anchor_target = wanted.anchor_target;
  options.backward = true;
  options.loss_weight = 0.02;
  options.anchor_weight = 0.01;
  const FusedBatch data{ids.data_ptr<int64_t>(), targets.data_ptr<int64_t>(), batch, time};
  const PassSums sums = pass.run(model.fused_parameters(false), data, options);

  EXPECT_EQ(sums.count, expected.count);
  EXPECT_NEAR(sums.loss / expected.loss_value, 1, tolerance);
  EXPECT_NEAR(sums.logit_norm / expected.logit_norm_sum, 1, tolerance);
  EXPECT_EQ(sums.scale_count, expected.scale.count);
  EXPECT_NEAR(sums.scale / expected.scale.scale_sum, 1, tolerance);
  if (c.anchor) EXPECT_NEAR(sums.anchor / expected.anchor_sum.item<double>(), 1, 3 * tolerance);

  const auto check = [&](ParameterBuffer& ours, ParameterBuffer& theirs) {
    for (const auto& slice : ours.slices()) {
      const auto part = [&](const torch::Tensor& flat) {
        return flat.narrow(0, slice.offset, slice.size());
      };
      const torch::Tensor right = part(theirs.gradients());
      if (right.abs().max().item<double>() == 0)
        EXPECT_EQ(part(ours.gradients()).abs().max().item<double>(), 0) << slice.spec.name;
      else
        EXPECT_LT(relative_error(part(ours.gradients()), right), 3 * tolerance) << slice.spec.name;
    }
  };
  check(model.parameters(), reference.parameters());
  if (model.taper_parameters().size())
    check(model.taper_parameters(), reference.taper_parameters());

  // A second pass adds to the gradients, and one without backward changes none.
  const torch::Tensor once = model.parameters().gradients().clone();
  options.backward = false;
  EXPECT_EQ(pass.run(model.fused_parameters(false), data, options).loss, sums.loss);
  EXPECT_TRUE(torch::equal(once, model.parameters().gradients()));
  options.backward = true;
  pass.run(model.fused_parameters(false), data, options);
  EXPECT_LT(relative_error(model.parameters().gradients(), once.to(torch::kFloat64) * 2), 1e-5);
}

TEST_P(TrainingPass, Float_MatchesTheGraphInDouble) {
  compare(GetParam(), Activations::kFloat, 2e-6);
}

TEST_P(TrainingPass, BFloat16_MatchesTheGraphToItsPrecision) {
  compare(GetParam(), Activations::kBF16, 2e-2);
}

INSTANTIATE_TEST_SUITE_P(Scopes, TrainingPass,
                         testing::Values(Case{TaperScope::kNone, 1, false, true, false},
                                         Case{TaperScope::kInternal, 1, true, false, false},
                                         Case{TaperScope::kInternal, 0.4, true, true, true},
                                         Case{TaperScope::kInternal, 0, true, false, false},
                                         Case{TaperScope::kFinal, 0.7, false, true, false},
                                         Case{TaperScope::kFinal, 0, false, false, true},
                                         Case{TaperScope::kAll, 0.3, true, false, false},
                                         Case{TaperScope::kAll, 0, true, true, false}));

TEST(TrainingPass, CalibrationSums_MatchTheGraph) {
  const ModelConfig config = tiny_config();
  Transformer reference(config, TaperScope::kAll, {}, torch::kFloat64);
  Transformer model(config, TaperScope::kAll);
  test::randomize(reference.parameters(), 21);
  copy_weights(reference, model);
  const torch::Tensor ids = random_ids(60, 8, config.vocab_size, 1);
  ForwardOptions wanted;
  wanted.calibrate = wanted.skip_first_position = true;
  torch::NoGradGuard no_grad;
  reference.forward(ids, ids, wanted);
  FusedTransformer pass(config, Activations::kFloat);
  PassOptions options;
  options.skip_first_position = true;
  pass.run(model.fused_parameters(true), {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), 60, 8},
           options);
  const auto expected = reference.take_sums(), sums = model.take_sums();
  ASSERT_EQ(sums.size(), expected.size());
  for (const auto& [name, right] : expected) {
    EXPECT_EQ(sums.at(name).rows, right.rows) << name;
    EXPECT_NEAR(sums.at(name).numerator / right.numerator, 1, 1e-6) << name;
    EXPECT_NEAR(sums.at(name).denominator / right.denominator, 1, 1e-6) << name;
    EXPECT_NEAR(sums.at(name).scale / right.scale, 1, 1e-6) << name;
  }
}

TEST(TrainingPass, FoldedNorms_MatchTheGraph) {
  const ModelConfig config = tiny_config();
  std::vector<std::string> folded;
  for (const NormSite& site : norm_sites(config)) folded.push_back(site.name);
  folded.pop_back();  // the final one stays
  Transformer reference(config, TaperScope::kNone, folded, torch::kFloat64);
  Transformer model(config, TaperScope::kNone, folded);
  test::randomize(reference.parameters(), 21);
  copy_weights(reference, model);
  const torch::Tensor ids = random_ids(5, 8, config.vocab_size, 1);
  reference.forward(ids, ids, {}).loss_sum.backward();
  FusedTransformer pass(config, Activations::kFloat);
  PassOptions options;
  options.backward = true;
  pass.run(model.fused_parameters(false), {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), 5, 8},
           options);
  EXPECT_LT(relative_error(model.parameters().gradients(), reference.parameters().gradients()),
            1e-5);
}

// Changing the shape of the batch back and forth must leave nothing behind.
TEST(TrainingPass, OtherBatchShapes_DoNotDisturb) {
  const ModelConfig config = tiny_config();
  Transformer model(config, TaperScope::kNone);
  test::randomize(model.parameters(), 21);
  FusedTransformer pass(config, Activations::kFloat);
  const auto loss = [&](int64_t batch, int64_t time) {
    const torch::Tensor ids = random_ids(batch, time, config.vocab_size, 1);
    return pass
        .run(model.fused_parameters(false),
             {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), batch, time}, {})
        .loss;
  };
  const double small = loss(2, 3), large = loss(9, 8);
  EXPECT_EQ(loss(2, 3), small);
  EXPECT_EQ(loss(9, 8), large);
  EXPECT_EQ(loss(2, 3), small);
}

// More windows than go through together, split over lanes or within one, in unequal parts.
TEST(TrainingPass, AnyNumberOfThreads_GivesTheSameGradients) {
  const ModelConfig config = tiny_config();
  const int64_t batch = 311, time = 5;
  const torch::Tensor ids = random_ids(batch, time, config.vocab_size, 1);
  const int before = at::get_num_threads();
  Transformer model = tapered_model(config, TaperScope::kInternal, torch::kFloat32);
  const auto gradients = [&](int threads, int64_t windows) {
    at::set_num_threads(threads);
    FusedTransformer pass(config, Activations::kFloat);
    PassOptions options;
    options.gate = 0.3;
    options.backward = true;
    for (int64_t begin = 0; begin < batch; begin += windows) {
      const torch::Tensor part = ids.narrow(0, begin, std::min(windows, batch - begin));
      pass.run(model.fused_parameters(false),
               {part.data_ptr<int64_t>(), part.data_ptr<int64_t>(), part.size(0), time}, options);
    }
    const torch::Tensor all = torch::cat(
        {model.parameters().gradients().to(torch::kFloat64), model.taper_parameters().gradients()});
    model.parameters().gradients().zero_();
    model.taper_parameters().gradients().zero_();
    return all;
  };
  const torch::Tensor expected = gradients(1, 60);
  for (const int threads : {1, 2, 3, 7})
    EXPECT_LT(relative_error(gradients(threads, batch), expected), 1e-6) << threads;
  EXPECT_LT(relative_error(gradients(3, 2), expected), 1e-6) << "fewer windows than threads";
  EXPECT_TRUE(torch::equal(gradients(2, batch), gradients(2, batch)));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace taper
