#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "taper/calibration.h"
#include "train/tiny_run.h"

namespace taper {
namespace {

using test::TinyRun;
using testing::HasSubstr;

std::vector<Json> rows_of(const std::filesystem::path& run, const std::string& kind) {
  std::vector<Json> rows;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line);
    if (row["kind"] == kind) rows.push_back(row);
  }
  return rows;
}

TEST(Trainer, WholeRun_GoesThroughThePhasesAndLearns) {
  TinyRun tiny;
  tiny.config.log.every = 1;
  const TrainSummary summary = Trainer(tiny.resolved(), tiny.run(), false).run();
  EXPECT_EQ(summary.step, 40);
  EXPECT_EQ(summary.gate, 0);

  const auto rows = rows_of(tiny.run(), "train");
  ASSERT_EQ(rows.size(), 40u);
  EXPECT_LT(rows.back()["loss"], 0.8 * rows.front()["loss"].get<double>());
  const GateSchedule schedule{10, 25};
  for (const Json& row : rows) {
    const int64_t k = row["step"].get<int64_t>() - 1;
    EXPECT_EQ(row["gate"], schedule.gate(k)) << k;
    EXPECT_EQ(row["anchor_loss"].get<double>() > 0, k >= 10) << k;
    EXPECT_GT(row["logit_norm"], 0);
    EXPECT_GT(row["final_scale"], 0);
    EXPECT_GT(row["grad_norm"], 0);
  }
  EXPECT_EQ(rows_of(tiny.run(), "calibration").size(), 1u);
  EXPECT_EQ(rows_of(tiny.run(), "end").size(), 1u);
  for (const Json& row : rows_of(tiny.run(), "valid"))
    EXPECT_EQ(row.contains("loss_g0"), row["step"] > 10) << row;

  const Checkpoint last = Checkpoint::open(tiny.run());
  EXPECT_EQ(last.taper().phase, "settle");
  EXPECT_EQ(last.taper().gate, 0);
  EXPECT_EQ(last.taper().tapered.size(), 5u);
  EXPECT_TRUE(last.taper().anchor_target.has_value());
  EXPECT_EQ(last.taper().final_scale.updates, 10) << "calibration ends where the taper starts";
}

TEST(Trainer, ScalesAtTheTaperStart_AreTheCalibrated) {
  TinyRun tiny;
  Trainer(tiny.resolved(), tiny.run(), false).run();
  const Json row = rows_of(tiny.run(), "calibration").at(0);
  EXPECT_EQ(row["step"], 10);
  const TaperState state = Checkpoint::open(tiny.run() / "checkpoints/step-10").taper();
  for (const Json& norm : row["norms"]) {
    const std::string name = norm["name"];
    EXPECT_EQ(norm["c"].get<double>(),
              calibrated_scale(name, state.numerators.at(name), state.denominators.at(name), 0.01));
  }
  EXPECT_EQ(row["s_tgt"].get<double>(), ema_mean(state.final_scale, 0.01));
}

// Resume equals no interruption, bit for bit, with the break inside each phase and on each
// boundary.
class Resume : public testing::TestWithParam<int64_t> {};

TEST_P(Resume, AfterABreak_GivesTheBitsOfAnUnbrokenRun) {
  TinyRun whole, broken;
  Trainer(whole.resolved(), whole.run(), false).run();

  broken.config.data = whole.config.data;
  broken.config.train.checkpoint_every = GetParam();
  {
    Trainer first(broken.resolved(), broken.run(), false);
    first.run();
  }
  // What a kill right after the checkpoint of step N leaves: `latest` names it.
  std::ofstream(broken.run() / "checkpoints/latest") << "step-" << GetParam() << "\n";
  for (int64_t step = GetParam() + 1; step <= 40; ++step)
    std::filesystem::remove_all(broken.run() / "checkpoints" / ("step-" + std::to_string(step)));
  Trainer(broken.resolved(), broken.run(), true).run();

  for (const char* file : {"model.safetensors", "train.safetensors"}) {
    const auto name = std::filesystem::path("checkpoints/step-40") / file;
    EXPECT_TRUE(read_file(whole.run() / name) == read_file(broken.run() / name)) << file;
  }
  EXPECT_EQ(rows_of(broken.run(), "end").size(), 1u) << "rows of the lost steps are dropped";
}

INSTANTIATE_TEST_SUITE_P(AcrossPhases, Resume, testing::Values(3, 9, 10, 11, 17, 24, 25, 26, 39));

TEST(Trainer, TwoThreads_ChangeRoundingOnly) {
  TinyRun one, two;
  one.config.train.batch = 4;
  one.config.train.accumulate = 1;
  two.config.data = one.config.data;
  two.config.train.batch = 4;
  two.config.train.accumulate = 1;
  two.config.train.threads = 2;
  const double a = Trainer(one.resolved(), one.run(), false).run().valid_loss;
  const double b = Trainer(two.resolved(), two.run(), false).run().valid_loss;
  EXPECT_NEAR(a, b, 1e-3);
}

template <typename E, typename F>
void expect_error(F action, const std::string& part) {
  try {
    action();
    FAIL() << "expected an error with: " << part;
  } catch (const E& error) {
    EXPECT_THAT(std::string(error.what()) + "\n" + error.hint(), HasSubstr(part));
  }
}

template <typename E>
void expect_rejected(const TinyRun& tiny, const std::string& part) {
  expect_error<E>([&] { Trainer(tiny.resolved(), tiny.run(), false); }, part);
}

TEST(TrainerBadInput, TaperEndBeforeStart_IsNamed) {
  TinyRun tiny;
  tiny.config.taper.start = 30;
  tiny.config.taper.end = 20;
  expect_rejected<ConfigError>(tiny, "taper.end (20) lies before taper.start (30)");
}

TEST(TrainerBadInput, TaperWithoutCalibration_IsAnError) {
  TinyRun tiny;
  tiny.config.taper.start = 0;
  expect_rejected<ConfigError>(tiny, "no statistics would exist to calibrate from");
}

TEST(TrainerBadInput, HeadsThatDoNotDivideTheWidth_AreNamed) {
  TinyRun tiny;
  tiny.config.model.heads = 5;
  expect_rejected<ConfigError>(tiny, "heads");
}

TEST(TrainerBadInput, TokenBeyondTheVocabulary_IsNamed) {
  TinyRun tiny;
  tiny.config.model.vocab_size = 100;
  expect_rejected<FormatError>(tiny, "vocabulary of 100");
}

TEST(TrainerBadInput, ShardOfAnotherTokenizer_IsNamed) {
  TinyRun tiny;
  write_file_atomically(tiny.path("tokenizer.json"), test::byte_tokenizer_json("<|end|>"));
  expect_rejected<FormatError>(tiny, "another tokenizer");
}

TEST(TrainerBadInput, TooLittleData_IsNamed) {
  TinyRun tiny;
  const auto tokenizer = load_tokenizer(tiny.path("tokenizer.json"));
  test::write_shard(tiny.path("train.tok"), test::periodic_ids(16), 257, tokenizer->fingerprint());
  expect_rejected<FormatError>(tiny, "too few for one window of 16");
}

TEST(TrainerBadInput, MissingData_IsNamed) {
  TinyRun tiny;
  std::filesystem::remove(tiny.path("valid.tok"));
  expect_rejected<FormatError>(tiny, "valid.tok");
}

TEST(TrainerBadInput, WindowBeyondTheContext_IsNamed) {
  TinyRun tiny;
  tiny.config.train.window = 17;
  expect_rejected<ConfigError>(tiny, "exceeds the model's context (16)");
}

TEST(TrainerBadInput, RunFolderUnderAFile_IsAResourceError) {
  TinyRun tiny;
  write_file_atomically(tiny.path("run"), "in the way");
  expect_rejected<ResourceError>(tiny, "--out");
}

TEST(TrainerBadInput, RunThatExists_AsksForResume) {
  TinyRun tiny;
  Trainer(tiny.resolved(), tiny.run(), false).run();
  expect_rejected<ConfigError>(tiny, "--resume");
}

TEST(TrainerBadInput, SecondProcessInOneFolder_IsRefused) {
  TinyRun tiny;
  Trainer first(tiny.resolved(), tiny.run(), false);
  expect_rejected<ResourceError>(tiny, "another process is training here");
}

TEST(TrainerBadInput, ResumeWithAnotherSetting_NamesIt) {
  TinyRun tiny;
  Trainer(tiny.resolved(), tiny.run(), false).run();
  tiny.config.train.learning_rate = 1e-4;
  expect_error<ConfigError>([&] { Trainer(tiny.resolved(), tiny.run(), true); }, "learning_rate");
}

TEST(TrainerBadInput, CheckpointOfAnotherShape_IsRefused) {
  TinyRun tiny, other;
  Trainer(tiny.resolved(), tiny.run(), false).run();
  other.config.model.width = 32;
  Trainer(other.resolved(), other.run(), false).run();
  const auto step = std::filesystem::path("checkpoints/step-40/model.safetensors");
  std::filesystem::copy_file(other.run() / step, tiny.run() / step,
                             std::filesystem::copy_options::overwrite_existing);
  expect_error<ShapeError>([&] { Trainer(tiny.resolved(), tiny.run(), true); }, "shape");
}

TEST(Trainer, HugeLearningRate_EndsWithTheFirstBadParameterNamed) {
  TinyRun tiny;
  tiny.config.train.learning_rate = 1;
  tiny.config.train.clip = 0;
  tiny.config.init.std = 10;
  tiny.config.train.max_skipped_steps = 2;
  tiny.config.taper.scope = "none";
  Trainer trainer(tiny.resolved(), tiny.run(), false);
  {
    torch::NoGradGuard no_grad;
    trainer.model().parameters().values().fill_(std::nanf(""));
  }
  expect_error<NumericsError>([&] { trainer.run(); }, "model.");
  EXPECT_EQ(rows_of(tiny.run(), "skipped").size(), 2u);
}

TEST(Trainer, FineTuningATaperedModel_IsRefusedWithTheWayOut) {
  TinyRun tiny, next;
  Trainer(tiny.resolved(), tiny.run(), false).run();
  next.config.data = tiny.config.data;
  next.config.init.from = tiny.run().string();
  expect_rejected<ConfigError>(next, "taper fold");
}

}  // namespace
}  // namespace taper
