#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "model/error_matchers.h"
#include "report/run_folder.h"
#include "temp_dir.h"

namespace taper {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Summary example_summary() {
  Summary summary;
  summary.baseline_loss = 3.0;
  summary.tapered_loss = 3.015;
  summary.folded_loss = 3.015;
  summary.fold_max_abs_logit_diff = 2.5e-6;
  summary.parameters = 4'123'456;
  summary.baseline_tokens_per_s = 800;
  summary.explicit_tokens_per_s = 840;
  summary.folded_tokens_per_s = 900;
  summary.seconds = 610;
  summary.sample = "And <it> came to pass";
  return summary;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

// The --json outputs that example_summary() comes from.
void write_results(const std::filesystem::path& folder) {
  write(folder / "eval-baseline.json", R"({"loss": 3.0})");
  write(folder / "eval-tapered.json", R"({"loss": 3.015})");
  write(folder / "eval-folded.json", R"({"loss": 3.015})");
  write(folder / "fold.json", R"({"max_abs_logit_diff": 2.5e-6})");
  write(folder / "info.json", R"({"parameters": 4123456})");
  write(folder / "bench.json",
        R"({"rows": [{"variant": "baseline", "tokens_per_s": 800},
                     {"variant": "explicit", "tokens_per_s": 840},
                     {"variant": "folded", "tokens_per_s": 900}]})");
  write(folder / "sample.txt", "And <it> came to pass\n");
}

TEST(Run, FinalFigures_ComeFromTheLog) {
  const TempDir folder;
  write_fake_run(folder / "a", {.steps = 50, .last_loss = 2.75});
  const taper::Run run = load_run(folder / "a/");
  EXPECT_EQ(run.name, "a");
  EXPECT_TRUE(run.finished);
  EXPECT_EQ(run.steps, 50);
  EXPECT_DOUBLE_EQ(run.train_loss, 2.75);
  EXPECT_DOUBLE_EQ(run.judged_loss(), 2.75);
  EXPECT_DOUBLE_EQ(run.seconds, 60);
  EXPECT_EQ(run.scales.size(), 2u);
  EXPECT_DOUBLE_EQ(run.s_tgt, 4.25);
}

TEST(Run, JudgedLoss_IsTheOneWithoutNorms) {
  const TempDir folder;
  write(folder / "metrics.jsonl",
        R"({"kind":"valid","step":10,"loss":2.5,"gate":0.5,"loss_g0":2.75})"
        "\n");
  EXPECT_DOUBLE_EQ(load_run(folder.path()).judged_loss(), 2.75);
}

TEST(Run, AFolderWithoutALog_IsAnErrorThatNamesIt) {
  const TempDir folder;
  EXPECT_ERROR(load_run(folder / "none"), FormatError, "none", "metrics.jsonl");
}

TEST(Run, RunsOfOneName_AreToldApartByTheirParents) {
  const TempDir folder;
  write_fake_run(folder / "x/run", {});
  write_fake_run(folder / "y/run", {});
  const std::vector<taper::Run> runs = load_runs({folder / "x/run", folder / "y/run"});
  EXPECT_EQ(runs[0].name, "x/run");
  EXPECT_EQ(runs[1].name, "y/run");
}

TEST(Page, TwoRunsAndASummary_ShowEverySection) {
  const TempDir folder;
  write_fake_run(folder / "baseline", {.tapers = false});
  write_fake_run(folder / "taper", {.last_loss = 3.03});
  const std::string page =
      render_page("demo", load_runs({folder / "baseline", folder / "taper"}), example_summary());
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Loss</h2>"), HasSubstr("<h2>Gap to baseline</h2>"),
                          HasSubstr("<h2>Calibration</h2>"), HasSubstr("<h2>Optimisation</h2>"),
                          HasSubstr("taper, model.layers.0.input_layernorm: c = 1.25"),
                          HasSubstr("anchor 4.25"), HasSubstr("+1.00 %")));
  EXPECT_THAT(page, AllOf(HasSubstr("4,123,456"), HasSubstr("+0.50 %"), HasSubstr("2.5e-06"),
                          HasSubstr("1.125×"), HasSubstr("And &lt;it&gt; came to pass")));
}

TEST(Page, NeedsNothingFromElsewhereAndRunsNoScript) {
  const TempDir folder;
  write_fake_run(folder / "a", {});
  const std::string page = render_page("t", load_runs({folder / "a"}), std::nullopt);
  for (const char* part : {"http:", "https:", "<script", "<link", "<img", "@import", "src="})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  EXPECT_THAT(page, Not(HasSubstr("Gap to")));
}

TEST(Page, NamesAndConfiguration_AreEscaped) {
  const TempDir folder;
  write_fake_run(folder / "<b>&", {});
  write(folder / "<b>&" / "config.toml", "name = \"<script>\"");
  const std::string page = render_page("<t>", load_runs({folder / "<b>&"}), std::nullopt);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<b>&<")), Not(HasSubstr("<t>")),
                          HasSubstr("&lt;b&gt;&amp;")));
}

TEST(Page, ALongRun_FitsAPageOfLessThanAMegabyte) {
  const TempDir folder;
  write_fake_run(folder / "long", {.steps = 20'000});
  EXPECT_LT(render_page("t", load_runs({folder / "long"}), std::nullopt).size(), 1'000'000u);
}

TEST(Page, ARunThatJustBegan_IsMarkedUnfinished) {
  const TempDir folder;
  std::filesystem::create_directories(folder / "young");
  write(folder / "young/metrics.jsonl",
        "{\"kind\":\"train\",\"step\":1,\"loss\":5.5,\"gate\":1}\n{\"kind\":");
  const std::string page = render_page("t", load_runs({folder / "young"}), std::nullopt);
  EXPECT_THAT(page, AllOf(HasSubstr("unfinished"), Not(HasSubstr("nan"))));
}

TEST(Summary, Json_HasTheKeysOfTheDemoAndReadsBack) {
  const Json json = to_json(example_summary());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("baseline_loss", "tapered_loss", "folded_loss",
                                           "gap_percent", "fold_max_abs_logit_diff", "parameters",
                                           "tokens_per_s", "seconds", "sample"));
  EXPECT_NEAR(json["gap_percent"].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(to_json(summary_from_json(json, "s")), json);
}

TEST(Summary, Gathered_HasTheFiguresOfEachCommand) {
  const TempDir folder;
  write_results(folder.path());
  EXPECT_EQ(to_json(gather_summary(folder.path(), 610)), to_json(example_summary()));
}

TEST(Summary, AResultThatIsMissing_IsAnErrorThatNamesIt) {
  const TempDir folder;
  write_results(folder.path());
  write(folder / "bench.json", R"({"rows": [{"variant": "baseline", "tokens_per_s": 800}]})");
  EXPECT_ERROR(gather_summary(folder.path(), 1), FormatError, "bench.json", "explicit");
  std::filesystem::remove(folder / "fold.json");
  EXPECT_ERROR(gather_summary(folder.path(), 1), FormatError, "fold.json");
}

}  // namespace
}  // namespace taper
