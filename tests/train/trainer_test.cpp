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

TrainSummary train(const TinyRun& tiny, bool resume) {
  return Trainer(open_run(tiny.resolved(), tiny.run(), resume)).run();
}

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
  const TrainSummary summary = train(tiny, false);
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
  train(tiny, false);
  const Json row = rows_of(tiny.run(), "calibration").at(0);
  EXPECT_EQ(row["step"], 10);
  const TaperState state = Checkpoint::open(tiny.run() / "checkpoints/step-10").taper();
  ASSERT_EQ(row["norms"].size(), state.calibration.size());
  for (size_t i = 0; i < state.calibration.size(); ++i) {
    const NormAverages& averages = state.calibration[i];
    EXPECT_EQ(row["norms"][i]["c"].get<double>(),
              calibrated_scale("", averages.numerator, averages.denominator, 0.01));
  }
  EXPECT_EQ(row["s_tgt"].get<double>(), ema_mean(state.final_scale, 0.01));
}

// Resume equals no interruption, bit for bit, with the break inside each phase and on each
// boundary, on any number of threads and in both types.
struct Break {
  int64_t step, threads;
  const char* dtype;

  friend std::ostream& operator<<(std::ostream& out, const Break& b) {
    return out << "step " << b.step << ", " << b.threads << " threads, " << b.dtype;
  }
};

class Resume : public testing::TestWithParam<Break> {};

TEST_P(Resume, AfterABreak_GivesTheBitsOfAnUnbrokenRun) {
  const Break& at = GetParam();
  TinyRun whole, broken;
  for (TinyRun* tiny : {&whole, &broken}) {
    tiny->config.data = whole.config.data;
    tiny->config.train.threads = at.threads;
    tiny->config.train.dtype = at.dtype;
  }
  train(whole, false);
  broken.config.train.checkpoint_every = at.step;
  train(broken, false);
  // What a kill right after the checkpoint of that step leaves: `latest` names it.
  std::ofstream(broken.run() / "checkpoints/latest") << "step-" << at.step << "\n";
  for (int64_t step = at.step + 1; step <= 40; ++step)
    std::filesystem::remove_all(broken.run() / "checkpoints" / ("step-" + std::to_string(step)));
  train(broken, true);

  for (const char* file : {"model.safetensors", "train.safetensors"}) {
    const auto name = std::filesystem::path("checkpoints/step-40") / file;
    EXPECT_TRUE(read_file(whole.run() / name) == read_file(broken.run() / name)) << file;
  }
  EXPECT_EQ(rows_of(broken.run(), "end").size(), 1u) << "rows of the lost steps are dropped";
}

std::vector<Break> breaks() {
  std::vector<Break> all;
  for (const int64_t step : {3, 9, 10, 11, 17, 24, 25, 26, 39}) {
    all.push_back({step, 1, "fp32"});
    all.push_back({step, 2, "bf16"});
  }
  for (const int64_t step : {10, 25}) {  // the start and the end of the taper
    all.push_back({step, 2, "fp32"});
    all.push_back({step, 3, "fp32"});
    all.push_back({step, 1, "bf16"});
    all.push_back({step, 3, "bf16"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AcrossPhases, Resume, testing::ValuesIn(breaks()));

// The same windows in micro-batches 2 x 2 and 1 x 4: the losses of every step are equal to
// rounding, over all phases.
TEST(Trainer, MicroBatches_ChangeRoundingOnly) {
  TinyRun apart, together;
  together.config.data = apart.config.data;
  apart.config.log.every = together.config.log.every = 1;
  apart.config.train.batch = apart.config.train.accumulate = 2;
  together.config.train.batch = 4;
  together.config.train.accumulate = 1;
  train(apart, false);
  train(together, false);
  const auto a = rows_of(apart.run(), "train"), b = rows_of(together.run(), "train");
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), i < 10 ? 1e-6 : 1e-3) << i;
}

TEST(Trainer, TwoThreads_ChangeRoundingOnly) {
  TinyRun one, two;
  one.config.train.batch = 4;
  one.config.train.accumulate = 1;
  two.config.data = one.config.data;
  two.config.train.batch = 4;
  two.config.train.accumulate = 1;
  two.config.train.threads = 2;
  const double a = train(one, false).valid_loss;
  const double b = train(two, false).valid_loss;
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
  expect_error<E>([&] { open_run(tiny.resolved(), tiny.run(), false); }, part);
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
  train(tiny, false);
  expect_rejected<ConfigError>(tiny, "--resume");
}

TEST(TrainerBadInput, SecondProcessInOneFolder_IsRefused) {
  TinyRun tiny;
  const TrainingRun first = open_run(tiny.resolved(), tiny.run(), false);
  expect_rejected<ResourceError>(tiny, "another process is training here");
}

TEST(TrainerBadInput, ResumeWithAnotherSetting_NamesIt) {
  TinyRun tiny;
  train(tiny, false);
  tiny.config.train.learning_rate = 1e-4;
  expect_error<ConfigError>([&] { open_run(tiny.resolved(), tiny.run(), true); }, "learning_rate");
}

TEST(TrainerBadInput, CheckpointOfAnotherShape_IsRefused) {
  TinyRun tiny, other;
  train(tiny, false);
  other.config.model.width = 32;
  train(other, false);
  const auto step = std::filesystem::path("checkpoints/step-40/model.safetensors");
  std::filesystem::copy_file(other.run() / step, tiny.run() / step,
                             std::filesystem::copy_options::overwrite_existing);
  expect_error<ShapeError>([&] { open_run(tiny.resolved(), tiny.run(), true); }, "shape");
}

// Weights of this size overflow in the first products: the gradient is not finite from step 1 on.
TEST(Trainer, WeightsThatOverflow_EndTheRunWithTheFirstBadParameterNamed) {
  TinyRun tiny;
  tiny.config.init.std = 10;
  tiny.config.model.norm_eps = 1e-5;
  tiny.config.train.learning_rate = 1;
  tiny.config.train.warmup = 1;
  tiny.config.train.clip = 0;
  tiny.config.train.weight_decay = 0;
  tiny.config.train.max_skipped_steps = 2;
  tiny.config.taper.scope = "none";
  TrainingRun run = open_run(tiny.resolved(), tiny.run(), false);
  for (float& value : run.model->values()) value *= 1e30f;
  expect_error<NumericsError>([&] { Trainer(std::move(run)).run(); }, "model.");
  EXPECT_EQ(rows_of(tiny.run(), "skipped").size(), 2u);
}

TEST(Trainer, DivergenceAfterACheckpoint_KeepsIt) {
  TinyRun tiny;
  tiny.config.train.max_skipped_steps = 2;
  tiny.config.taper.scope = "none";
  train(tiny, false);
  const auto before = read_file(tiny.run() / "checkpoints/step-40/model.safetensors");
  tiny.config.train.steps = 40;
  // The run goes on from its last checkpoint, with weights that overflow.
  std::ofstream(tiny.run() / "checkpoints/latest") << "step-30\n";
  TrainingRun run = open_run(tiny.resolved(), tiny.run(), true);
  for (float& value : run.model->values()) value *= 1e30f;
  expect_error<NumericsError>([&] { Trainer(std::move(run)).run(); }, "model.");
  EXPECT_EQ(Checkpoint::open(tiny.run()).path().filename(), "step-30");
  EXPECT_EQ(read_file(tiny.run() / "checkpoints/step-40/model.safetensors"), before);
}

TEST(Trainer, FineTuningATaperedModel_IsRefusedWithTheWayOut) {
  TinyRun tiny, next;
  train(tiny, false);
  next.config.data = tiny.config.data;
  next.config.init.from = tiny.run().string();
  expect_rejected<ConfigError>(next, "taper fold");
}

}  // namespace
}  // namespace taper
