// taper tokenizer, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "core/file.h"
#include "core/json.h"
#include "temp_dir.h"

namespace taper {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TokenizerCommand : public ::testing::Test {
 protected:
  TokenizerCommand() : path_((folder_ / "tokenizer.json").string()) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "The mill grinds the grain.\n<|endoftext|>\n";
    write_file_atomically(folder_ / "text.txt", text);
  }
  CommandResult train(const std::string& size, std::vector<std::string> more = {"--json"}) {
    std::vector<std::string> arguments = {
        "tokenizer",    "train", "--input", (folder_ / "text.txt").string(),
        "--vocab-size", size,    "--out",   path_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command("taper", arguments);
  }
  CommandResult tokenizer(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tokenizer");
    arguments.insert(arguments.begin() + 2, {"--tokenizer", path_});
    return run_command("taper", arguments);
  }

  TempDir folder_;
  std::string path_;
};

TEST_F(TokenizerCommand, TrainEncodeDecode_RoundTrips) {
  const CommandResult trained = train("270");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json report = parse_json(trained.out, "stdout");
  EXPECT_EQ(report["vocab_size"], 270);
  EXPECT_GT(report["bytes_per_token"].get<double>(), 1.2);

  const CommandResult encoded = tokenizer({"encode", "--text", "The grain", "--json"});
  ASSERT_EQ(encoded.exit_code, 0) << encoded.err;
  EXPECT_THAT(encoded.err, IsEmpty());
  std::vector<std::string> decode = {"decode", "--json"};
  const Json ids = parse_json(encoded.out, "stdout")["ids"];
  for (const Json& id : ids) decode.push_back(id.dump());
  const CommandResult decoded = tokenizer(decode);
  ASSERT_EQ(decoded.exit_code, 0) << decoded.err;
  EXPECT_EQ(parse_json(decoded.out, "stdout")["text"], "The grain");
}

TEST_F(TokenizerCommand, Encode_SpecialTokensOnlyWhenAllowed) {
  ASSERT_EQ(train("257").exit_code, 0);
  EXPECT_EQ(tokenizer({"encode", "--text", "<|endoftext|>", "--allow-special"}).out, "0\n");
  EXPECT_THAT(tokenizer({"encode", "--text", "<|endoftext|>"}).out, ::testing::Not("0\n"));
  EXPECT_EQ(tokenizer({"encode", "--text", ""}).out, "\n");
  write_file_atomically(folder_ / "one.txt", "!");
  EXPECT_EQ(tokenizer({"encode", "--file", (folder_ / "one.txt").string()}).out, "1\n");
}

TEST_F(TokenizerCommand, TooLittleText_WarnsAndMakesASmallerVocabulary) {
  const CommandResult result = train("5000");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("instead of 5000"));
  EXPECT_LT(parse_json(result.out, "stdout")["vocab_size"].get<int64_t>(), 400);
}

TEST_F(TokenizerCommand, Errors_HaveTheirExitCodesAndLeaveNothing) {
  const CommandResult small = train("256");
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_THAT(small.err, HasSubstr("257"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(run_command("taper", {"tokenizer", "train", "--input", "/absent", "--vocab-size", "300",
                                  "--out", path_})
                .exit_code,
            3);
  EXPECT_EQ(tokenizer({"encode", "--text", "a"}).exit_code, 3);  // no tokenizer yet
  ASSERT_EQ(train("257").exit_code, 0);
  EXPECT_EQ(tokenizer({"encode"}).exit_code, 2);
  EXPECT_EQ(tokenizer({"encode", "--text", "a", "--file", "b"}).exit_code, 2);
  const CommandResult beyond = tokenizer({"decode", "257"});
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("0..256"));
}

}  // namespace
}  // namespace taper
