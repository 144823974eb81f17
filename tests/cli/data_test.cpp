// taper data prepare, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "core/file.h"
#include "core/json.h"
#include "io/token_shard.h"
#include "temp_dir.h"

namespace taper {
namespace {

using ::testing::HasSubstr;

class DataCommand : public ::testing::Test {
 protected:
  DataCommand() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "The mill grinds the grain.\n<|endoftext|>\n";
    write_file_atomically(folder_ / "text.txt", text);
    const CommandResult trained =
        run_command("taper", {"tokenizer", "train", "--input", path("text.txt"), "--vocab-size",
                              "265", "--out", path("tokenizer.json")});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
  }
  std::string path(const char* name) { return (folder_ / name).string(); }
  CommandResult prepare(std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "data", "prepare", "--tokenizer", path("tokenizer.json"), "--out", path("out"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command("taper", arguments);
  }
  TempDir folder_;
};

TEST_F(DataCommand, HeldOutFraction_ReportsTheTokensOfBothShards) {
  const CommandResult result = prepare({"--input", path("text.txt"), "--valid-fraction", "0.25"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json report = parse_json(result.out, "stdout");
  EXPECT_EQ(report["train_tokens"], TokenShard(folder_ / "out/train.tok").size());
  EXPECT_EQ(report["valid_tokens"], TokenShard(folder_ / "out/valid.tok").size());
  EXPECT_EQ(report["train_documents"], 30);
  EXPECT_EQ(report["valid_documents"], 10);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/tokenizer.json"));
}

TEST_F(DataCommand, HeldOutFile_IsPrepared) {
  write_file_atomically(folder_ / "held.txt", "The grain.");
  const CommandResult result = prepare({"--input", path("text.txt"), "--valid", path("held.txt")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(result.out, "stdout")["valid_documents"], 1);
}

TEST_F(DataCommand, Errors_HaveTheirExitCodesAndLeaveNothing) {
  const CommandResult absent = prepare({"--input", path("absent")});
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_THAT(absent.err, HasSubstr("absent"));
  EXPECT_EQ(prepare({}).exit_code, 2);
  EXPECT_EQ(prepare({"--input", path("text.txt"), "--valid-fraction", "2"}).exit_code, 2);
  EXPECT_EQ(
      prepare({"--input", path("text.txt"), "--valid-fraction", "0.1", "--valid", path("text.txt")})
          .exit_code,
      2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace taper
