#include "infer/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

// c of the definition, over the rows of `table` that `ids` name.
double closed_form(const std::vector<float>& table, const std::vector<float>& gamma, double eps,
                   const std::vector<TokenId>& ids) {
  const size_t width = gamma.size();
  double numerator = 0;
  double denominator = 0;
  for (const TokenId id : ids) {
    const float* h = table.data() + static_cast<size_t>(id) * width;
    double squares = 0;
    double weighted = 0;
    for (size_t i = 0; i < width; ++i) {
      squares += static_cast<double>(h[i]) * h[i];
      weighted += std::pow(static_cast<double>(h[i]) * gamma[i], 2);
    }
    numerator += weighted / std::sqrt(squares / static_cast<double>(width) + eps);
    denominator += weighted;
  }
  return numerator / denominator;
}

class Calibrate : public testing::Test {
 protected:
  Model load(TaperScope scope, double gate) {
    const test::RandomModel model = test::random_model(60, scope, true, gate);
    model.write(dir_ / "m");
    return Model(Checkpoint::open(dir_ / "m"));
  }
  TempDir dir_;
  ThreadPool pool_{1};
};

TEST_F(Calibrate, FirstNorm_EqualsTheClosedFormOverTheEmbeddings) {
  const Model model = load(TaperScope::kNone, 1);
  const TensorSet& tensors = model.checkpoint().tensors();
  const TokenSample sample{{{3, 1, 4, 1, 5}, {9, 2, 6}}, "test"};
  const Calibration calibration = calibrate(model, pool_, sample);
  EXPECT_EQ(calibration.tokens, 8);
  const auto table = to_float32(tensors.at("model.embed_tokens.weight"));
  const auto gamma = to_float32(tensors.at("model.layers.0.input_layernorm.weight"));
  const double eps = model.config().norm_eps;
  const NormCalibration& norm = calibration.norms.front();
  EXPECT_EQ(norm.name, "model.layers.0.input_layernorm");
  EXPECT_NEAR(norm.scale, closed_form(table, gamma, eps, {3, 1, 4, 1, 5, 9, 2, 6}), 1e-9);
  ASSERT_TRUE(norm.scale_without_first);
  EXPECT_NEAR(*norm.scale_without_first, closed_form(table, gamma, eps, {1, 4, 1, 5, 2, 6}), 1e-9);
}

TEST_F(Calibrate, EveryNorm_IsListedInOrderWithPlausibleNumbers) {
  const Model model = load(TaperScope::kNone, 1);
  const auto calibration = calibrate(model, pool_, sample_random_ids(model.config(), {}));
  const auto sites = norm_sites(model.config());
  ASSERT_EQ(calibration.norms.size(), sites.size());
  for (size_t i = 0; i < sites.size(); ++i) {
    const NormCalibration& norm = calibration.norms[i];
    EXPECT_EQ(norm.name, sites[i].name);
    EXPECT_GE(norm.scale, 0.99 / norm.r_max);
    EXPECT_GT(norm.relative_error, 0);
    EXPECT_LT(norm.relative_error, 1);
    EXPECT_LE(norm.r_p1, norm.r_median);
    EXPECT_LE(norm.r_median, norm.r_p99);
  }
  EXPECT_NEAR(calibration.anchor_target, calibration.norms.back().r_median,
              0.5 * calibration.anchor_target);
}

TEST_F(Calibrate, SequencesOfOneToken_HaveNothingBesidePositionZero) {
  const Model model = load(TaperScope::kNone, 1);
  const Calibration calibration = calibrate(model, pool_, {{{1}, {2}}, "test"});
  EXPECT_FALSE(calibration.norms.front().scale_without_first);
}

TEST_F(Calibrate, TaperedModel_IsRefused) {
  const Model model = load(TaperScope::kFinal, 0.5);
  EXPECT_ERROR(calibrate(model, pool_, {{{1, 2}}, "test"}), ConfigError, "model.norm");
}

TEST(TokenSample, Windows_CutTheShardAndStopAtTheLimit) {
  const TempDir dir;
  ModelConfig config = test::random_config(1, true);
  config.vocab_size = 100;
  config.context = 16;
  const auto shard = [&](int64_t vocab, const std::vector<int32_t>& ids) {
    TokenShardWriter writer(dir / "t.tok", vocab, 77);
    writer.append(ids);
    writer.commit();
    return TokenShard(dir / "t.tok");
  };
  const TokenShard good = shard(100, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const TokenSample sample = sample_shard(good, config, 77, {.window = 4, .max_tokens = 9});
  EXPECT_THAT(sample.sequences,
              testing::ElementsAre(testing::ElementsAre(0, 1, 2, 3),
                                   testing::ElementsAre(4, 5, 6, 7), testing::ElementsAre(8)));
  EXPECT_EQ(sample_shard(good, config, 0, {.window = 4, .max_tokens = 0}).num_tokens(), 10);
  EXPECT_ERROR(sample_shard(good, config, 78, {}), FormatError, "another tokenizer");
  EXPECT_ERROR(sample_shard(good, config, 77, {.window = 17}), ConfigError, "17");
  EXPECT_ERROR(sample_shard(good, config, 77, {.max_tokens = -1}), ConfigError, "-1");
  EXPECT_ERROR(sample_shard(shard(500, {1, 400}), config, 77, {}), FormatError, "400");
  EXPECT_ERROR(sample_shard(shard(100, {}), config, 77, {}), FormatError, "no tokens");
}

}  // namespace
}  // namespace taper
