// taper generate and taper bench decode, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/byte_model.h"
#include "cli/run_command.h"
#include "core/json.h"
#include "shared_data.h"
#include "stories260k.h"
#include "temp_dir.h"

namespace taper {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::StartsWith;

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override { test::write_byte_model(model_, TaperScope::kInternal, 0); }
  CommandResult generate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"generate", model_.string()});
    return run_command("taper", arguments);
  }

  TempDir folder_;
  std::filesystem::path model_ = folder_ / "model";
};

TEST_F(GenerateCommand, Json_ReportsWhatTheContractSays) {
  const auto result = generate({"--prompt", "abc", "-n", "5", "--temperature", "0", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["prompt_tokens"], 3);
  EXPECT_LE(json["new_tokens"], 5);
  EXPECT_EQ(json["ids"].size(), json["new_tokens"]);
  EXPECT_GE(json["tokens_per_s"].get<double>(), 0);
  EXPECT_THAT(json["finish_reason"].get<std::string>(), testing::AnyOf("length", "eos"));
  for (const Json& id : json["ids"]) EXPECT_LT(id.get<int>(), 257);
}

TEST_F(GenerateCommand, Text_StreamsThePromptAndWhatFollows) {
  const std::vector<std::string> arguments = {"--prompt", "abc", "-n", "5", "--seed", "4"};
  const auto text = generate(arguments);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  auto with_json = arguments;
  with_json.push_back("--json");
  const Json json = parse_json(generate(with_json).out, "stdout");
  EXPECT_EQ(text.out, "abc" + json["text"].get<std::string>() + "\n");
  EXPECT_EQ(generate(arguments).out, text.out);  // the same seed
}

TEST_F(GenerateCommand, FullContext_IsSaidOnStderrAndInTheJson) {
  // At temperature 100 an end-of-text is as rare as any of 257 tokens.
  const std::vector<std::string> arguments = {"--prompt", "abc",    "-n", "500",   "--temperature",
                                              "100",      "--seed", "2",  "--json"};
  const auto result = generate(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(result.out, "stdout")["finish_reason"], "context");
  EXPECT_THAT(result.err, HasSubstr("context of"));
}

TEST_F(GenerateCommand, BadUse_HasItsExitCodeAndMessage) {
  const auto cold = generate({"--temperature", "-1"});
  EXPECT_EQ(cold.exit_code, 2);
  EXPECT_THAT(cold.err, HasSubstr("temperature"));
  EXPECT_EQ(generate({"--top-p", "0"}).exit_code, 2);
  EXPECT_EQ(generate({"--gate", "7"}).exit_code, 2);
  EXPECT_EQ(generate({"--prompt", std::string(500, 'a')}).exit_code, 2);
  EXPECT_EQ(generate({"--stop", ""}).exit_code, 2);
  EXPECT_EQ(run_command("taper", {"generate", (folder_ / "absent").string()}).exit_code, 3);
  std::filesystem::remove(model_ / "tokenizer.json");
  const auto no_tokenizer = generate({"--prompt", "a"});
  EXPECT_EQ(no_tokenizer.exit_code, 3);
  EXPECT_THAT(no_tokenizer.err, HasSubstr("tokenizer.json"));
}

TEST_F(GenerateCommand, BenchDecode_PrintsARowForEachVariant) {
  const std::string model = model_.string();
  const std::vector<std::string> arguments = {"bench",
                                              "decode",
                                              "tapered=" + model + ":gate=0.5",
                                              "scaled=" + model + ":gate=0",
                                              "--new",
                                              "8",
                                              "--rounds",
                                              "3"};
  auto with_json = arguments;
  with_json.push_back("--json");
  const auto result = run_command("taper", with_json);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json rows = parse_json(result.out, "stdout")["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["variant"], "tapered");
  EXPECT_EQ(rows[1]["variant"], "scaled");
  EXPECT_EQ(rows[0]["ratio"], 1.0);
  for (const Json& row : rows) {
    EXPECT_THAT(row["tokens_per_s"].get<double>(),
                AllOf(Ge(row["min"].get<double>()), Le(row["max"].get<double>())));
    EXPECT_GT(row["limit_tokens_per_s"].get<double>(), 0);
  }
  EXPECT_THAT(run_command("taper", arguments).out, HasSubstr("scaled"));
  EXPECT_EQ(run_command("taper", {"bench", "decode", model + ":gate=x"}).exit_code, 2);
  EXPECT_EQ(run_command("taper", {"bench", "decode", model, "--new", "100000"}).exit_code, 2);
}

TEST(GenerateStories260K, GreedyText_IsTheDocumentedOne) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const TempDir folder;
  test::import_stories260k(*data, folder / "model");
  const std::vector<std::string> arguments = {
      "generate", (folder / "model").string(), "-n", "256", "--temperature", "0", "--quiet"};
  const auto result = run_command("taper", arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("Once upon a time, there was a little girl named Lily."));
  EXPECT_THAT(result.out, testing::EndsWith("\"Don't worry, Lily. We can help you.\n"));
}

}  // namespace
}  // namespace taper
