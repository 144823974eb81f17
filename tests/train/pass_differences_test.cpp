// The reference itself, the pass in double, against central differences: every kind of parameter.
#include <gtest/gtest.h>

#include <cmath>

#include "train/pass_case.h"

namespace taper {
namespace {

using test::PassCase;
using test::random_batch;
using test::random_model;

double objective(TrainingPass<double>& pass, const Batch& batch, PassOptions options) {
  options.backward = false;
  const PassSums sums = pass.run(batch.view(), options);
  return options.loss_weight * sums.loss +
         (options.anchor_target ? options.anchor_weight * sums.anchor : 0);
}

// First, middle and last element of every tensor.
void expect_central_differences(ModelParameters<double>& model, const PassOptions& options,
                                int threads) {
  ThreadPool pool(threads);
  TrainingPass<double> pass(model, Activations::kFull, pool);
  Batch batch = random_batch(3, 5, model.config().vocab_size);
  batch.targets[7] = -1;  // not counted
  pass.run(batch.view(), options);
  for (const ParameterSlice& slice : model.layout().slices()) {
    for (const int64_t at : {int64_t{0}, slice.range.size() / 2, slice.range.size() - 1}) {
      const auto index = static_cast<size_t>(slice.range.begin + at);
      double& value = model.values()[index];
      const double kept = value, step = 1e-5;
      value = kept + step;
      const double above = objective(pass, batch, options);
      value = kept - step;
      const double below = objective(pass, batch, options);
      value = kept;
      const double expected = (above - below) / (2 * step);
      EXPECT_NEAR(model.gradients()[index], expected, 1e-9 + 1e-6 * std::abs(expected))
          << slice.name << "[" << at << "]";
    }
  }
}

class PassDifferences : public testing::TestWithParam<PassCase> {};

TEST_P(PassDifferences, EveryParameter_MatchesInOneLaneAndInSeveral) {
  const PassCase& c = GetParam();
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(testing::Message() << threads << " threads");
    auto model = random_model<double>(test::tiny_config(c.tied), c.scope);
    expect_central_differences(model, c.options(), threads);
  }
}

INSTANTIATE_TEST_SUITE_P(Scopes, PassDifferences, testing::ValuesIn(test::kPassCases));

TEST(PassDifferencesOfFoldedNorms, EveryParameter_Matches) {
  for (const bool all : {false, true}) {
    const ModelConfig config = test::tiny_config(/*tied=*/false);
    std::vector<std::string> folded;
    for (const NormSite& site : norm_sites(config))
      if (all || !site.is_final()) folded.push_back(site.name);
    auto model = random_model<double>(config, TaperScope::kNone, 5, 0.3, folded);
    PassOptions options = PassCase{TaperScope::kNone, 1, true, false, false}.options();
    expect_central_differences(model, options, 1);
  }
}

}  // namespace
}  // namespace taper
