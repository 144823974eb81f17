// taper eval, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/byte_model.h"
#include "cli/run_command.h"
#include "core/file.h"
#include "core/json.h"
#include "io/token_shard.h"
#include "shared_data.h"
#include "stories260k.h"
#include "temp_dir.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

using testing::HasSubstr;

class EvalCommand : public testing::Test {
 protected:
  void SetUp() override {
    test::write_byte_model(model_, TaperScope::kInternal, 0.5);
    write_file_atomically(text_, "one two three\n<|endoftext|>\nfour five six seven\n");
  }
  CommandResult eval(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"eval", model_.string()});
    return run_command("taper", arguments);
  }

  TempDir folder_;
  std::filesystem::path model_ = folder_ / "model", text_ = folder_ / "text.txt";
};

TEST_F(EvalCommand, Documents_ReportsWhatTheContractSays) {
  const auto result = eval({"--text", text_.string(), "--documents", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["tokens"], 12 + 18);  // 13 and 19 bytes, without BOS
  EXPECT_EQ(json["sequences"], 2);
  EXPECT_NEAR(json["perplexity"].get<double>(), std::exp(json["loss"].get<double>()), 1e-6);
  EXPECT_LE(json["p50"].get<double>(), json["p99"].get<double>());
  EXPECT_EQ(json["p99"], json["max"]);
  EXPECT_GT(json["max_residual_norm"].get<double>(), 0);
  EXPECT_EQ(json["gate"], 0.5);
}

TEST_F(EvalCommand, PreparedText_ScoresAsTheTextItself) {
  // What config.json calls its special tokens has no say: the tokenizer decides.
  Json config = parse_json(read_file(model_ / "config.json"), "config.json");
  config["bos_token_id"] = 5;
  config["eos_token_id"] = 6;
  write_file_atomically(model_ / "config.json", config.dump());
  const std::string data = (folder_ / "data").string();
  const auto prepared =
      run_command("taper", {"data", "prepare", "--tokenizer", (model_ / "tokenizer.json").string(),
                            "--input", text_.string(), "--out", data, "--quiet"});
  ASSERT_EQ(prepared.exit_code, 0) << prepared.err;
  const auto loss = [&](const char* option, const std::string& file) {
    const auto result = eval({option, file, "--context", "7", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "stdout")["loss"].get<double>();
  };
  EXPECT_EQ(loss("--text", text_.string()), loss("--data", data + "/train.tok"));
}

TEST_F(EvalCommand, Gate_ChangesTheLoss) {
  const auto loss = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--text", text_.string(), "--documents", "--json"});
    return parse_json(eval(more).out, "stdout")["loss"].get<double>();
  };
  EXPECT_EQ(loss({}), loss({"--gate", "0.5"}));
  EXPECT_NE(loss({}), loss({"--gate", "0"}));
  EXPECT_NE(loss({"--gate", "1"}), loss({"--gate", "0"}));
  EXPECT_EQ(eval({"--text", text_.string(), "--gate", "2"}).exit_code, 2);
}

TEST_F(EvalCommand, Shard_IsReadWithTheModelsTokenizerOnly) {
  const auto tokenizer = load_tokenizer(model_ / "tokenizer.json");
  for (const bool same : {true, false}) {
    TokenShardWriter writer(folder_ / "f.tok", 257, tokenizer->fingerprint() + !same);
    writer.append(tokenizer->encode("a text of some length"));
    writer.commit();
    const auto result = eval({"--data", (folder_ / "f.tok").string(), "--context", "5", "--json"});
    if (same) {
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(parse_json(result.out, "stdout")["tokens"], 20);
    } else {
      EXPECT_EQ(result.exit_code, 3);
      EXPECT_THAT(result.err, HasSubstr("made by the tokenizer"));
    }
  }
}

TEST_F(EvalCommand, BadUse_HasItsExitCodeAndMessage) {
  EXPECT_THAT(eval({}).err, HasSubstr("--data"));
  EXPECT_EQ(eval({}).exit_code, 2);
  EXPECT_EQ(eval({"--documents", "--data", "x"}).exit_code, 2);
  EXPECT_EQ(eval({"--text", (folder_ / "absent").string()}).exit_code, 3);
  EXPECT_EQ(eval({"--text", text_.string(), "--context", "4000"}).exit_code, 2);
  const auto short_text = eval({"--text", text_.string(), "--context", "16"});
  EXPECT_EQ(short_text.exit_code, 0);
  EXPECT_THAT(short_text.out, HasSubstr("nats per token"));
}

TEST(EvalStories260K, KnownLoss_IsReproduced) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const TempDir folder;
  test::import_stories260k(*data, folder / "model");
  const auto result = run_command("taper",
                                  {"eval", (folder / "model").string(), "--text",
                                   (*data / "tinystories/tinystories_eval200.txt").string(),
                                   "--documents", "--context", "512", "--json"},
                                  "", 600);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_NEAR(json["loss"].get<double>(), 1.30651, 0.0005);
  EXPECT_EQ(json["tokens"], 70718);
}

}  // namespace
}  // namespace taper
