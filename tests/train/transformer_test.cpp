// The graph as a whole: its gradient, and the propositions of method.md section 2 on it.
#include "train/nn/transformer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "taper/calibration.h"
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

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << to_string(c.scope) << " gate " << c.gate << (c.anchor ? " anchor" : "")
               << (c.tied ? " tied" : " untied");
  }
};

class WholeGraph : public testing::TestWithParam<Case> {};

double total_loss(Transformer& model, const torch::Tensor& ids, const torch::Tensor& targets,
                  const Case& c, bool backward) {
  ForwardOptions options;
  options.gate = c.gate;
  if (c.anchor) options.anchor_target = 1.3;
  const ForwardResult result = model.forward(ids, targets, options);
  torch::Tensor loss = result.loss_sum / 10.0;
  if (c.anchor) loss = loss + 0.1 * result.anchor_sum;
  if (backward) loss.backward();
  return loss.item<double>();
}

TEST_P(WholeGraph, Gradient_MatchesCentralDifferences) {
  const Case c = GetParam();
  const ModelConfig config = tiny_config(c.tied);
  Transformer model = tapered_model(config, c.scope, torch::kFloat64);
  const torch::Tensor ids = random_ids(2, 5, config.vocab_size, 1);
  const torch::Tensor targets = random_ids(2, 5, config.vocab_size, 2);
  total_loss(model, ids, targets, c, true);

  torch::NoGradGuard no_grad;
  for (ParameterBuffer* buffer : {&model.parameters(), &model.taper_parameters()}) {
    if (buffer->size() == 0) continue;
    double* values = buffer->values().data_ptr<double>();
    const double* gradients = buffer->gradients().data_ptr<double>();
    for (const auto& slice : buffer->slices()) {
      for (const int64_t at : {int64_t{0}, slice.size() / 2, slice.size() - 1}) {
        const int64_t index = slice.offset + at;
        const double kept = values[index], step = 1e-5;
        values[index] = kept + step;
        const double above = total_loss(model, ids, targets, c, false);
        values[index] = kept - step;
        const double below = total_loss(model, ids, targets, c, false);
        values[index] = kept;
        const double expected = (above - below) / (2 * step);
        EXPECT_NEAR(gradients[index], expected, 1e-7 + 1e-6 * std::abs(expected))
            << slice.spec.name << "[" << at << "]";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, WholeGraph,
                         testing::Values(Case{TaperScope::kNone, 1, false, true},
                                         Case{TaperScope::kInternal, 0.4, true, true},
                                         Case{TaperScope::kInternal, 0, true, false},
                                         Case{TaperScope::kFinal, 0.7, false, true},
                                         Case{TaperScope::kAll, 0.3, true, false},
                                         Case{TaperScope::kAll, 0, true, true}));

// The residual stream's last state as a leaf, through final norm and head: dloss/dh by token.
struct HeadProblem {
  torch::Tensor h, gamma, weight, targets;
  torch::Tensor loss_gradient(bool norm, double eps) {
    h.mutable_grad() = torch::Tensor();
    const torch::Tensor x = norm ? ops::rms_norm(h, gamma, eps) : h * gamma;
    ops::head_cross_entropy(x, weight, targets).loss_sum.backward();
    return h.grad();
  }
};

HeadProblem head_problem() {
  torch::manual_seed(3);
  HeadProblem p;
  p.h = torch::randn({11, 24}, torch::kFloat64).requires_grad_(true);
  p.gamma = 0.5 + torch::rand({24}, torch::kFloat64);
  p.weight = torch::randn({23, 24}, torch::kFloat64) * 0.3;
  p.targets = random_ids(1, 11, 23, 4).view({-1});
  return p;
}

TEST(Theory, FinalNorm_RemovesTheRadialGradient) {  // Proposition 1
  HeadProblem p = head_problem();
  const torch::Tensor radial = (p.loss_gradient(true, 1e-12) * p.h).sum(1);
  EXPECT_LT(radial.abs().max().item<double>(), 1e-9);
  // Without the norm the same gradient is anything but tangential.
  EXPECT_GT((p.loss_gradient(false, 0) * p.h).sum(1).abs().max().item<double>(), 1e-2);
}

TEST(Theory, WithoutFinalNorm_CorrectTokensChaseLogits) {  // Proposition 2
  HeadProblem p = head_problem();
  const torch::Tensor z = torch::mm(p.h.detach() * p.gamma, p.weight.t());
  p.targets = z.argmax(1);  // every token is classified correctly
  const torch::Tensor radial = (p.loss_gradient(false, 0) * p.h.detach()).sum(1);
  const torch::Tensor probabilities = torch::softmax(z, 1);
  const torch::Tensor z_y = std::get<0>(z.max(1));
  const torch::Tensor expected = (probabilities * z).sum(1) - z_y;
  EXPECT_LT((radial - expected).abs().max().item<double>(), 1e-9);
  const auto top2 = std::get<0>(z.topk(2, 1));
  const torch::Tensor margin = top2.select(1, 0) - top2.select(1, 1);
  const torch::Tensor p_y = std::get<0>(probabilities.max(1));
  EXPECT_TRUE((radial <= -(1 - p_y) * margin + 1e-12).all().item<bool>());
  EXPECT_TRUE((radial < 0).all().item<bool>());
}

TEST(Theory, Anchor_PullsTowardsTheTargetFromBothSides) {  // Proposition 3
  torch::manual_seed(8);
  const double eps = 1e-5, lambda = 0.1;
  const torch::Tensor h = (torch::randn({9, 24}, torch::kFloat64) *
                           torch::linspace(0.3, 3, 9, torch::kFloat64).unsqueeze(1))
                              .requires_grad_(true);
  const double target = 1.5;
  (lambda * ops::anchor_loss(h, target, eps).loss_sum).backward();
  const torch::Tensor r = (h.detach().square().mean(1) + eps).sqrt();
  const torch::Tensor expected = 2 * lambda * (r - target) * h.detach().square().sum(1) / (24 * r);
  const torch::Tensor radial = (h.grad() * h.detach()).sum(1);
  EXPECT_LT((radial - expected).abs().max().item<double>(), 1e-10);
  EXPECT_GT((r - target).max().item<double>(), 0);
  EXPECT_LT((r - target).min().item<double>(), 0);
}

TEST(Calibration, RecordedBatch_EqualsTheClosedForm) {
  const ModelConfig config = tiny_config();
  Transformer model(config, TaperScope::kAll, {}, torch::kFloat64);
  test::randomize(model.parameters(), 21);
  const torch::Tensor ids = random_ids(3, 8, config.vocab_size, 1);
  ForwardOptions options;
  options.calibrate = true;
  torch::NoGradGuard no_grad;
  model.forward(ids, ids, options);
  const auto sums = model.take_sums();
  ASSERT_EQ(sums.size(), 5u);

  // The first norm reads the embedding: its statistics can be written down directly.
  const torch::Tensor table = model.parameters().value(model.parameters().slices()[0]);
  const torch::Tensor gamma = model.parameters().value(model.parameters().slices()[1]);
  const torch::Tensor h = table.index_select(0, ids.view({-1}));
  const torch::Tensor r = (h.square().mean(1) + config.norm_eps).sqrt();
  const torch::Tensor a = (h * gamma).square().sum(1);
  const double c_star = ((a / r).mean() / a.mean()).item<double>();
  const ops::NormSums& first = sums.at("model.layers.0.input_layernorm");
  EXPECT_EQ(first.rows, 24);
  EXPECT_NEAR(first.numerator / first.denominator, c_star, 1e-12);

  // And it is the minimum: moving c either way makes the replaced norm worse.
  const auto error = [&](double c) {
    return ((h / r.unsqueeze(1) - c * h) * gamma).square().sum().item<double>();
  };
  EXPECT_GT(error(c_star * 1.01), error(c_star));
  EXPECT_GT(error(c_star * 0.99), error(c_star));
  EXPECT_TRUE(model.take_sums().at("model.norm").rows == 0) << "sums are taken once";
}

TEST(Transformer, BeginTaperAtGateOne_ChangesNoBit) {
  const ModelConfig config = tiny_config();
  Transformer model(config, TaperScope::kAll);
  test::randomize(model.parameters(), 21);
  const torch::Tensor ids = random_ids(2, 9, config.vocab_size, 1);
  torch::NoGradGuard no_grad;
  const torch::Tensor before = model.logits(ids, 1);
  std::map<std::string, double> scales;
  for (const NormSite& site : norm_sites(config)) scales[site.name] = 0.8;
  model.begin_taper(scales);
  EXPECT_TRUE(torch::equal(before, model.logits(ids, 1)));
  EXPECT_FALSE(torch::equal(before, model.logits(ids, 0.5)));
}

}  // namespace
}  // namespace taper
