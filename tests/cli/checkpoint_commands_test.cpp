// taper import, info, calibrate and fold, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cli/byte_model.h"
#include "cli/run_command.h"
#include "core/file.h"
#include "core/json.h"
#include "shared_data.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Json json_of(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(result.out, "stdout");
}

class CheckpointCommands : public testing::Test {
 protected:
  CommandResult taper(std::vector<std::string> arguments) {
    return run_command("taper", std::move(arguments));
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  TempDir folder_;
};

TEST_F(CheckpointCommands, Fold_ReportsTheProofAndInfoShowsTheResult) {
  test::write_byte_model(folder_ / "m", TaperScope::kAll);
  const Json report = json_of(taper({"fold", path("m"), path("f"), "--json"}));
  const Json before = json_of(taper({"info", path("m"), "--json"}));
  const Json after = json_of(taper({"info", path("f"), "--json"}));
  EXPECT_EQ(report["norms_folded"], before["norms"]["tapered"]);
  EXPECT_EQ(report["norms_kept"], 0);
  EXPECT_GT(report["tokens"].get<int64_t>(), 100);
  EXPECT_LT(report["max_rel_logit_diff"].get<double>(), 1e-5);
  EXPECT_THAT(report["verified_on"].get<std::string>(), HasSubstr("built-in"));
  EXPECT_EQ(before["family"], "llama");
  EXPECT_EQ(before["dtype"], "F32");
  EXPECT_EQ(before["tied_head"], true);
  EXPECT_EQ(before["phase"], "settle");
  EXPECT_EQ(after["norms"]["folded"], report["norms_folded"]);
  EXPECT_EQ(after["tied_head"], false);
  EXPECT_EQ(after["phase"], "folded");
  EXPECT_EQ(after["tokenizer"]["vocab_size"], 257);
  EXPECT_EQ(after["source"]["command"], "fold");
}

TEST_F(CheckpointCommands, Fold_UsesTheTextItIsGiven) {
  test::write_byte_model(folder_ / "m", TaperScope::kInternal);
  write_file_atomically(folder_ / "t.txt", "twelve bytes");
  const Json report =
      json_of(taper({"fold", path("m"), path("f"), "--verify-text", path("t.txt"), "--json"}));
  EXPECT_EQ(report["tokens"], 12);
  EXPECT_THAT(report["verified_on"].get<std::string>(), HasSubstr("t.txt"));
}

TEST_F(CheckpointCommands, Fold_RefusesAGateThatStandsOpen) {
  test::write_byte_model(folder_ / "m", TaperScope::kInternal, 0.37);
  const auto result = taper({"fold", path("m"), path("f")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("0.37"));
  EXPECT_FALSE(fs::exists(folder_ / "f"));
}

TEST_F(CheckpointCommands, Fold_ThatDiffersExitsWith4AndWritesNothing) {
  test::write_byte_model(folder_ / "m", TaperScope::kInternal);
  {  // a NaN in the last weight of the file, which no norm feeds
    const fs::path file = folder_ / "m" / "model.safetensors";
    std::string bytes = read_file(file);
    const float bad = std::nanf("");
    std::memcpy(bytes.data() + bytes.size() - 4, &bad, 4);
    write_file_atomically(file, bytes);
  }
  const auto result = taper({"fold", path("m"), path("f"), "--json"});
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(CheckpointCommands, ExistingTarget_IsReplacedOnlyByForceAndOnlyIfACheckpoint) {
  test::write_byte_model(folder_ / "m", TaperScope::kInternal);
  json_of(taper({"fold", path("m"), path("f"), "--json"}));
  const auto again = taper({"fold", path("m"), path("f")});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  json_of(taper({"fold", path("m"), path("f"), "--force", "--json"}));
  EXPECT_EQ(taper({"fold", path("m"), path("m"), "--force"}).exit_code, 2);
  fs::create_directories(folder_ / "precious");
  write_file_atomically(folder_ / "precious" / "letter.txt", "dear");
  EXPECT_EQ(taper({"fold", path("m"), path("precious"), "--force"}).exit_code, 2);
  EXPECT_TRUE(fs::exists(folder_ / "precious" / "letter.txt"));
}

TEST_F(CheckpointCommands, Calibrate_ListsEveryNormOfAnUntaperedModel) {
  test::write_byte_model(folder_ / "m", TaperScope::kNone);
  write_file_atomically(folder_ / "t.txt", "A text of some length, read byte by byte.");
  const auto arguments = [&](const char* model) {
    return std::vector<std::string>{"calibrate", path(model), "--text", path("t.txt"), "--json"};
  };
  const Json report = json_of(taper(arguments("m")));
  const Json info = json_of(taper({"info", path("m"), "--json"}));
  EXPECT_EQ(static_cast<int64_t>(report["norms"].size()), info["norms"]["plain"]);
  for (const Json& norm : report["norms"]) {
    EXPECT_GT(norm["c"].get<double>(), 0);
    EXPECT_GT(norm["relative_error"].get<double>(), 0);
  }
  EXPECT_GT(report["s_tgt"].get<double>(), 0);
  EXPECT_EQ(report["tokens"], 41);
  EXPECT_EQ(taper({"calibrate", path("m")}).exit_code, 2);
  test::write_byte_model(folder_ / "t", TaperScope::kInternal);
  EXPECT_EQ(taper(arguments("t")).exit_code, 2);
}

TEST_F(CheckpointCommands, Import_OfAHuggingFaceDirectoryKeepsTensorsAndTokenizer) {
  test::write_byte_model(folder_ / "m", TaperScope::kNone);
  EXPECT_EQ(taper({"import", path("m"), path("i")}).exit_code, 2);  // ours already
  fs::remove(folder_ / "m" / "taper.json");
  const Json report = json_of(taper({"import", path("m"), path("i"), "--json"}));
  EXPECT_EQ(report["format"], "huggingface");
  EXPECT_EQ(report["tokenizer"], true);
  EXPECT_EQ(read_file(folder_ / "i" / "tokenizer.json"),
            read_file(folder_ / "m" / "tokenizer.json"));
  const Json info = json_of(taper({"info", path("i"), "--json"}));
  EXPECT_EQ(info["parameters"], report["parameters"]);
  EXPECT_EQ(info["source"]["name"], "m");
}

TEST_F(CheckpointCommands, Import_OfRubbishExitsWith3) {
  write_file_atomically(folder_ / "x.bin", std::string(1000, 'k'));
  const auto result = taper({"import", path("x.bin"), path("i")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("x.bin"));
  EXPECT_EQ(taper({"import", path("absent"), path("i")}).exit_code, 3);
  EXPECT_FALSE(fs::exists(folder_ / "i"));
}

TEST_F(CheckpointCommands, Import_OfStories260K_FindsItsTokenizerBesideIt) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string source = (*data / "stories260K" / "stories260K.bin").string();
  const Json report = json_of(taper({"import", source, path("s"), "--json"}));
  EXPECT_EQ(report["format"], "llama2c");
  EXPECT_EQ(report["tensors"], 1 + 5 * 9 + 1);
  EXPECT_EQ(report["parameters"], 260032);
  EXPECT_EQ(report["bytes"], 4 * 260032);
  fs::copy_file(source, folder_ / "alone.bin");
  const auto alone = taper({"import", path("alone.bin"), path("a")});
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--tokenizer"));
}

}  // namespace
}  // namespace taper
