// `taper bench train` as a user meets it: the JSON contract, a real peer, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli/run_command.h"
#include "core/json.h"
#include "train/tiny_run.h"

namespace taper {
namespace {

using test::TinyRun;
using testing::HasSubstr;

CommandResult bench(const std::string& shape, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"bench",    "train", "--shape",   shape,
                                        "--rounds", "1",     "--seconds", "0.01"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command("taper", arguments);
}

TEST(BenchTrainCommand, Json_HasARowForEachNormWithTheContractsKeys) {
  TinyRun tiny;
  for (const char* dtype : {"fp32", "bf16"}) {
    const CommandResult result =
        bench(tiny.write_config().string(),
              {"--norm", "plain,taper,settled", "--dtype", dtype, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = Json::parse(result.out);
    ASSERT_EQ(json["rows"].size(), 3u);
    const std::vector<std::string> norms = {"plain", "taper", "settled"};
    for (size_t i = 0; i < norms.size(); ++i) {
      const Json& row = json["rows"][i];
      EXPECT_EQ(row["norm"], norms[i]);
      EXPECT_EQ(row["dtype"], dtype);
      EXPECT_EQ(row["shape"], tiny.path("tiny.toml").string());
      EXPECT_GT(row["tokens_per_s"], 0);
      EXPECT_GT(row["peak_memory_mb"], 1);
      EXPECT_GT(row["flop_share"], 0);
      EXPECT_LT(row["flop_share"], 1) << "faster than the machine: the limit is wrong";
    }
    EXPECT_LT(json["check_loss_error"], 3e-2);
  }
}

TEST(BenchTrainCommand, Profile_AccountsForAStep) {
  TinyRun tiny;
  const CommandResult result = bench(tiny.write_config().string(), {"--profile"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"forward", "backward", "linear products", "attention", "AdamW"})
    EXPECT_THAT(result.out, HasSubstr(part));
}

TEST(BenchTrainCommand, AgainstPyTorch_AddsThePeerToEachRow) {
  const std::string python = std::string(TAPER_SOURCE_DIR) + "/.venv/bin/python";
  if (run_command("/bin/sh", {"-c", python + " -c 'import torch, numpy'"}).exit_code != 0)
    GTEST_SKIP() << "no PyTorch in .venv: run make bench-setup";
  TinyRun tiny;
  tiny.config.model.kv_heads = tiny.config.model.heads;
  const CommandResult result =
      run_command("/bin/sh", {"-c", "cd " TAPER_SOURCE_DIR " && " TAPER_BIN_DIR
                                    "/taper bench train --rounds 1 --seconds 0.01 --json "
                                    "--against torch-eager --shape " +
                                        tiny.write_config().string()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json rows = Json::parse(result.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_FALSE(rows[0].contains("peer"));
  EXPECT_EQ(rows[1]["peer"], "torch-eager");
  EXPECT_GT(rows[1]["peer_tokens_per_s"], 0);
  EXPECT_GT(rows[1]["peer_peak_memory_mb"], 50);
  EXPECT_LT(Json::parse(result.out)["peer_checks"][0]["gradient"], 1e-3);
  const double ratio =
      rows[1]["tokens_per_s"].get<double>() / rows[1]["peer_tokens_per_s"].get<double>();
  EXPECT_NEAR(rows[1]["ratio"].get<double>(), ratio, 1e-6 * ratio);
}

TEST(BenchTrainCommand, WhatItDoesNotKnow_IsNamed) {
  TinyRun tiny;
  const std::string config = tiny.write_config().string();
  const auto expect_error = [](const CommandResult& result, const char* part) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(result.out, "");
  };
  expect_error(bench("paper-2m", {}), "paper-3m");
  expect_error(bench(config, {"--dtype", "fp16"}), "fp32 or bf16");
  expect_error(bench(config, {"--norm", "taperd"}), "plain, taper or settled");
  for (const char* seconds : {"nan", "-1"})
    expect_error(run_command("taper", {"bench", "train", "--seconds", seconds}),
                 "0 to 3600 seconds");
  expect_error(bench(config, {"--against", "jax"}), "torch-eager or torch-compile");
  tiny.config.train.window = 17;
  expect_error(bench(tiny.write_config().string(), {}), "exceeds the model's context (16)");
}

TEST(BenchTrainCommand, PeerThatIsNotInstalled_PointsToTheSetUp) {
  TinyRun tiny;
  tiny.config.model.kv_heads = tiny.config.model.heads;
  const std::string config = tiny.write_config().string();
  const CommandResult absent =
      bench(config, {"--against", "torch-eager", "--python", "/no/such/python"});
  EXPECT_EQ(absent.exit_code, 5);
  EXPECT_THAT(absent.err, HasSubstr("make bench-setup"));
  const CommandResult silent = bench(config, {"--against", "torch-eager", "--python", "/bin/true"});
  EXPECT_EQ(silent.exit_code, 2);
  EXPECT_THAT(silent.err, HasSubstr("make bench-setup"));
}

}  // namespace
}  // namespace taper
