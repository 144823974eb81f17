#include "model/norm_sites.h"

#include <gtest/gtest.h>

#include "model/error_matchers.h"
#include "model/random_checkpoint.h"

namespace taper {
namespace {

TEST(NormSites, ModelOfTwoLayers_ListsNormsInOrder) {
  ModelConfig config = test::random_config(3, true);
  config.num_layers = 2;
  std::vector<std::string> names;
  for (const NormSite& site : norm_sites(config)) {
    EXPECT_EQ(site.index, std::ssize(names));
    names.push_back(site.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("model.layers.0.input_layernorm",
                                          "model.layers.0.post_attention_layernorm",
                                          "model.layers.1.input_layernorm",
                                          "model.layers.1.post_attention_layernorm", "model.norm"));
}

TEST(TaperScope, Names_AreReadBackAndOthersRefused) {
  for (const TaperScope scope :
       {TaperScope::kNone, TaperScope::kInternal, TaperScope::kFinal, TaperScope::kAll})
    EXPECT_EQ(parse_scope(to_string(scope), "x"), scope);
  EXPECT_ERROR(parse_scope("everything", "tiny.toml: taper.scope"), ConfigError,
               "tiny.toml: taper.scope", "everything", "internal");
}

TEST(NormForm, TaperedNorm_FollowsTheGate) {
  EXPECT_EQ(norm_form(NormState::kTapered, 1), NormForm::kPlain);
  EXPECT_EQ(norm_form(NormState::kTapered, 0.999), NormForm::kBlend);
  EXPECT_EQ(norm_form(NormState::kTapered, 1e-6), NormForm::kBlend);
  EXPECT_EQ(norm_form(NormState::kTapered, 0), NormForm::kFixedScale);
}

TEST(NormForm, PlainAndFoldedNorms_DoNot) {
  for (const double gate : {0.0, 0.3, 1.0}) {
    EXPECT_EQ(norm_form(NormState::kPlain, gate), NormForm::kPlain);
    EXPECT_EQ(norm_form(NormState::kFolded, gate), NormForm::kIdentity);
  }
}

}  // namespace
}  // namespace taper
