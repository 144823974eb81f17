#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/error_matchers.h"
#include "report/run_folder.h"

namespace taper {
namespace {

const std::string kRow = R"({"kind":"train","step":1,"loss":5.5,"gate":1})";

TEST(Metrics, ALogOfEveryKind_IsReadRowByRow) {
  const Metrics metrics = parse_metrics(fake_log({.steps = 40, .last_loss = 2.5}), "log");
  ASSERT_EQ(metrics.train.size(), 40u);
  EXPECT_EQ(metrics.train[7].step, 8);
  EXPECT_DOUBLE_EQ(metrics.train.back().loss, 2.5);
  EXPECT_DOUBLE_EQ(metrics.train.back().logit_norm, 600);
  EXPECT_DOUBLE_EQ(metrics.train.back().tokens, 40 * 4096);
  ASSERT_EQ(metrics.valid.size(), 10u);
  EXPECT_DOUBLE_EQ(metrics.valid[0].loss_g0 - metrics.valid[0].loss, 1);
  ASSERT_TRUE(metrics.calibration);
  EXPECT_EQ(metrics.calibration->norms[1].name, "model.layers.0.post_attention_layernorm");
  EXPECT_DOUBLE_EQ(metrics.calibration->norms[1].c, 0.75);
  EXPECT_DOUBLE_EQ(metrics.calibration->s_tgt, 4.25);
  ASSERT_TRUE(metrics.end);
  EXPECT_DOUBLE_EQ(metrics.end->tokens_per_s, 9100);
}

TEST(Metrics, FiguresThatAreAbsentOrNull_AreNan) {
  const Metrics metrics = parse_metrics(R"({"kind":"train","step":3,"loss":null})"
                                        "\n"
                                        R"({"kind":"valid","step":3,"loss":2.5,"gate":1})"
                                        "\n",
                                        "log");
  EXPECT_TRUE(std::isnan(metrics.train[0].loss));
  EXPECT_TRUE(std::isnan(metrics.train[0].grad_norm));
  EXPECT_TRUE(std::isnan(metrics.valid[0].loss_g0));
}

TEST(Metrics, ATornLastLine_IsDropped) {
  const Metrics metrics = parse_metrics(kRow + "\n{\"kind\":\"train\",\"st", "log");
  EXPECT_EQ(metrics.train.size(), 1u);
}

TEST(Metrics, ALastLineWithoutNewline_IsReadWhenItIsWhole) {
  EXPECT_EQ(parse_metrics(kRow, "log").train.size(), 1u);
}

TEST(Metrics, AMalformedLine_IsAnErrorWithItsNumber) {
  EXPECT_ERROR(parse_metrics(kRow + "\n{\"kind\":\n" + kRow, "a/metrics.jsonl"), FormatError,
               "a/metrics.jsonl:2");
  EXPECT_ERROR(parse_metrics(kRow + "\n[1]\n", "log"), FormatError, "log:2");
  EXPECT_ERROR(parse_metrics("{\"kind\":\"train\",\"loss\":1}\n", "log"), FormatError, "log:1",
               "step");
  EXPECT_ERROR(parse_metrics("{\"kind\":\"train\",\"step\":1,\"loss\":\"x\"}\n", "log"),
               FormatError, "log:1", "loss");
}

TEST(Metrics, ARowOfAnUnknownKind_IsSkipped) {
  const Metrics metrics = parse_metrics("{\"kind\":\"skipped\",\"step\":2}\n" + kRow + "\n", "log");
  EXPECT_EQ(metrics.train.size(), 1u);
}

TEST(Metrics, ARunThatWentBack_KeepsTheLaterRows) {
  const std::string first = fake_log({.steps = 20, .last_loss = 4});
  const std::string again = R"({"kind":"train","step":15,"loss":1.25})";
  const Metrics metrics = parse_metrics(first + again + "\n", "log");
  ASSERT_EQ(metrics.train.size(), 15u);
  EXPECT_DOUBLE_EQ(metrics.train.back().loss, 1.25);
  EXPECT_EQ(metrics.valid.back().step, 14);
  EXPECT_FALSE(metrics.end);
  EXPECT_TRUE(metrics.calibration);
}

}  // namespace
}  // namespace taper
