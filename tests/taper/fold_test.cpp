#include "taper/fold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

using test::random_model;
using test::RandomModel;

std::vector<float> values(const Checkpoint& checkpoint, const std::string& name) {
  return to_float32(checkpoint.tensors().at(name));
}

// W diag(c gamma~), the specification, from the unfolded checkpoint.
std::vector<float> reference(const Checkpoint& checkpoint, const std::string& norm,
                             const std::string& weight) {
  const double c = values(checkpoint, norm + ".taper_scale")[0];
  const std::vector<float> gamma = values(checkpoint, norm + ".taper_weight");
  std::vector<float> w = values(checkpoint, weight);
  const auto width = static_cast<size_t>(checkpoint.config().width);
  for (size_t row = 0; row < w.size() / width; ++row) {
    for (size_t i = 0; i < width; ++i) {
      w[row * width + i] =
          static_cast<float>(static_cast<double>(w[row * width + i]) * (c * gamma[i]));
    }
  }
  return w;
}

class Fold : public testing::TestWithParam<std::tuple<TaperScope, bool>> {};

TEST_P(Fold, RandomModels_MatchTheReferenceAndChangeNothingElse) {
  const auto [scope, tied] = GetParam();
  for (uint64_t seed = 30; seed < 36; ++seed) {
    const TempDir dir;
    random_model(seed, scope, tied).write(dir / "m");
    const Checkpoint original = Checkpoint::open(dir / "m");
    const FoldedModel folded = fold(original);
    std::filesystem::create_directories(dir / "f");
    write_checkpoint_files(dir / "f", folded.plan.config, folded.plan.taper,
                           folded.tensors->views(), "");
    const Checkpoint result = Checkpoint::open(dir / "f");

    std::set<std::string> changed;
    const auto expect_folded = [&](const std::string& norm, const std::string& from,
                                   const std::string& to) {
      EXPECT_EQ(values(result, to), reference(original, norm, from)) << to;
      EXPECT_TRUE(changed.insert(to).second);
    };
    if (scope != TaperScope::kFinal) {
      for (int64_t layer = 0; layer < original.config().num_layers; ++layer) {
        const std::string prefix = "model.layers." + std::to_string(layer) + ".";
        for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
          const std::string weight = prefix + name + ".weight";
          expect_folded(prefix + "input_layernorm", weight, weight);
        }
        for (const char* name : {"mlp.gate_proj", "mlp.up_proj"}) {
          const std::string weight = prefix + name + ".weight";
          expect_folded(prefix + "post_attention_layernorm", weight, weight);
        }
      }
    }
    const bool final_folds = scope != TaperScope::kInternal;
    if (final_folds) {
      expect_folded("model.norm", tied ? "model.embed_tokens.weight" : "lm_head.weight",
                    "lm_head.weight");
    }
    EXPECT_EQ(result.config().tied_head, tied && !final_folds);
    for (const TensorView& tensor : result.tensors().views()) {
      if (changed.contains(tensor.name)) continue;
      EXPECT_EQ(to_float32(tensor), values(original, tensor.name)) << tensor.name;
    }
    for (const NormSite& site : norm_sites(original.config())) {
      EXPECT_EQ(result.norm_state(site),
                in_scope(site, scope) ? NormState::kFolded : NormState::kPlain);
    }
    EXPECT_EQ(result.taper().phase, "folded");
    EXPECT_EQ(result.taper().scope, scope);
    EXPECT_EQ(result.taper().gate, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(ScopesAndHeads, Fold,
                         testing::Combine(testing::Values(TaperScope::kInternal, TaperScope::kFinal,
                                                          TaperScope::kAll),
                                          testing::Bool()));

TEST(Fold, RoundingNoise_MovesFoldedWeightsByOneUnitAndNothingElse) {
  const TempDir dir;
  random_model(44, TaperScope::kInternal, true).write(dir / "m");
  const FoldedModel folded = fold(Checkpoint::open(dir / "m"));
  const auto noisy = with_rounding_noise(folded, 7);
  const std::set<std::string> changed(folded.changed.begin(), folded.changed.end());
  EXPECT_EQ(changed.size(), static_cast<size_t>(5 * folded.plan.config.num_layers));
  for (const TensorView& view : folded.tensors->views()) {
    const std::vector<float> before = to_float32(view), after = to_float32(noisy->at(view.name));
    if (!changed.contains(view.name)) {
      EXPECT_EQ(before, after) << view.name;
      continue;
    }
    size_t raised = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(std::nextafter(before[i], after[i]), after[i]);
      ASSERT_NE(before[i], after[i]);
      raised += after[i] > before[i] ? 1 : 0;
    }
    EXPECT_GT(raised, 0u);
    EXPECT_LT(raised, before.size());
  }
}

TEST(FoldPlan, AllScope_ListsEveryConsumerOnce) {
  const RandomModel model = random_model(40, TaperScope::kAll, true);
  const FoldPlan plan = plan_fold(model.config, model.taper, "m");
  EXPECT_EQ(plan.steps.size(), static_cast<size_t>(2 * model.config.num_layers + 1));
  std::set<Place> readers;
  for (const FoldStep& step : plan.steps)
    for (const Place& place : step.readers) EXPECT_TRUE(readers.insert(place).second);
  EXPECT_EQ(readers.size(), static_cast<size_t>(5 * model.config.num_layers + 1));
  EXPECT_TRUE(plan.unties_head);
}

TEST(FoldPlan, Source_KeepsTheHistory) {
  RandomModel model = random_model(41, TaperScope::kInternal, true);
  model.taper.source = {{"command", "train"}, {"step", 12}};
  const FoldPlan plan = plan_fold(model.config, model.taper, "m");
  EXPECT_EQ(plan.taper.source["command"], "fold");
  EXPECT_EQ(plan.taper.source["from"], model.taper.source);
}

TEST(FoldPlan, WrongStates_AreRefusedWithTheNextStep) {
  RandomModel model = random_model(42, TaperScope::kInternal, true, 0.37);
  EXPECT_ERROR(plan_fold(model.config, model.taper, "run/step-5"), ConfigError, "run/step-5",
               "0.37");
  model = random_model(42, TaperScope::kNone, true);
  EXPECT_ERROR(plan_fold(model.config, model.taper, "m"), ConfigError, "no norm is tapered");
  model = random_model(42, TaperScope::kInternal, true);
  const FoldPlan plan = plan_fold(model.config, model.taper, "m");
  EXPECT_ERROR(plan_fold(plan.config, plan.taper, "m"), ConfigError, "already");
  model.taper.tapered.push_back("model.layers.77.input_layernorm");
  EXPECT_ERROR(plan_fold(model.config, model.taper, "m"), FormatError, "layers.77");
}

// The model with the first value of one tensor replaced.
void write_with_value(const RandomModel& model, const std::filesystem::path& directory,
                      const std::string& name, float value) {
  TensorSet tensors;
  for (const TensorView& view : model.tensors.views()) {
    const std::span<float> copy = tensors.add(view.name, view.shape);
    std::memcpy(copy.data(), view.data.data(), view.data.size());
    if (view.name == name) copy[0] = value;
  }
  std::filesystem::create_directories(directory);
  write_checkpoint_files(directory, model.config, model.taper, tensors.views(), "");
}

TEST(Fold, NumbersThatCannotBeFolded_AreNamed) {
  const RandomModel model = random_model(43, TaperScope::kInternal, true);
  const std::string norm = "model.layers.0.input_layernorm";
  const TempDir dir;
  for (const float c : {0.0f, -1.0f, std::nanf(""), HUGE_VALF}) {
    write_with_value(model, dir / "m", norm + ".taper_scale", c);
    EXPECT_ERROR(fold(Checkpoint::open(dir / "m")), NumericsError, "input_layernorm.taper_scale");
  }
  write_with_value(model, dir / "m", norm + ".taper_weight", std::nanf(""));
  EXPECT_ERROR(fold(Checkpoint::open(dir / "m")), NumericsError, "taper_weight[0]");
  write_with_value(model, dir / "m", "model.layers.0.self_attn.q_proj.weight", HUGE_VALF);
  EXPECT_ERROR(fold(Checkpoint::open(dir / "m")), NumericsError, "q_proj.weight[0, 0]");
}

}  // namespace
}  // namespace taper
