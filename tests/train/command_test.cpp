// `taper train` as a user meets it: messages, exit codes, Ctrl-C, and kills at any moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "cli/run_command.h"
#include "core/random.h"
#include "infer/session.h"
#include "model/checkpoint.h"
#include "train/run_directory.h"
#include "train/tiny_run.h"

namespace taper {
namespace {

using test::TinyRun;
using testing::HasSubstr;

CommandResult train(const TinyRun& tiny, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"train", tiny.write_config().string(), "--out",
                                        tiny.run().string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command("taper", arguments);
}

TEST(TrainCommand, Json_PrintsOneObjectWithTheContractsKeys) {
  TinyRun tiny;
  const CommandResult result = train(tiny, {"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = Json::parse(result.out);
  for (const char* key : {"step", "train_loss", "valid_loss", "tokens_per_s"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["step"], 40);
}

TEST(TrainCommand, HelpConfig_ListsEveryKeyWithItsDefault) {
  const CommandResult result = run_command("taper", {"train", "--help-config"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* part : {"learning_rate", "0.0003", "[taper]", "skip_first_position"})
    EXPECT_THAT(result.out, HasSubstr(part));
}

TEST(TrainCommand, UnknownKey_NamesTheNearest) {
  TinyRun tiny;
  const CommandResult result = train(tiny, {"--set", "train.stesp=3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("train.steps"));
  EXPECT_EQ(result.out, "");
}

TEST(TrainCommand, IgnoredSettings_AreWarnedAboutOnce) {
  TinyRun tiny;
  const CommandResult result = train(tiny, {"--set", "taper.scope=none", "--set", "taper.end=9"});
  EXPECT_EQ(result.exit_code, 0);
  const std::string warning = "taper.end is ignored";
  const size_t first = result.err.find(warning);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, first + 1), std::string::npos);
}

// A trainer in a process of its own.
class Process {
 public:
  Process(const TinyRun& tiny, std::vector<std::string> more, rlim_t file_limit = RLIM_INFINITY) {
    std::vector<std::string> words = {std::string(TAPER_BIN_DIR) + "/taper",
                                      "train",
                                      tiny.write_config().string(),
                                      "--out",
                                      tiny.run().string(),
                                      "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (file_limit != RLIM_INFINITY) {
      const rlimit limit{file_limit, file_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  void signal(int number) const { ::kill(pid_, number); }
  int wait() const {  // exit code, or 128 + the signal
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

int64_t latest_step(const TinyRun& tiny) {
  std::ifstream file(tiny.run() / "checkpoints/latest");
  std::string name;
  return file >> name ? std::stoll(name.substr(std::string("step-").size())) : 0;
}

void wait_for_checkpoint_beyond(const TinyRun& tiny, int64_t step) {
  for (int i = 0; i < 6000 && latest_step(tiny) <= step; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void expect_no_leftovers(const TinyRun& tiny) {
  for (const auto& entry : std::filesystem::directory_iterator(tiny.run() / "checkpoints"))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST(TrainCommand, CtrlC_WritesACheckpointAndExits130) {
  TinyRun tiny;
  tiny.config.train.steps = 1000000;
  tiny.config.train.warmup = 4;
  tiny.config.taper.end = 25;
  const Process process(tiny, {});
  wait_for_checkpoint_beyond(tiny, 0);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  const Checkpoint last = Checkpoint::open(tiny.run());
  EXPECT_EQ(last.path().filename(), "step-" + std::to_string([&] {
                                      return parse_json(read_file(last.path() / "train.json"),
                                                        "train.json")["step"]
                                          .get<int64_t>();
                                    }()));
}

TEST(TrainCommand, KilledAtRandomMoments_AlwaysResumesFromACompleteCheckpoint) {
  TinyRun tiny;
  tiny.config.train.steps = 1000000;
  tiny.config.train.checkpoint_every = 1;  // nearly all of the time goes into writing
  tiny.config.train.valid_every = 1000;
  tiny.config.train.valid_windows = 1;
  tiny.config.train.keep_checkpoints = 2;
  Random random(7);
  int64_t before = 0;
  for (int round = 0; round < 12; ++round) {
    const Process process(tiny, {"--resume"});
    wait_for_checkpoint_beyond(tiny, before);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(30000)));
    process.signal(SIGKILL);
    ASSERT_EQ(process.wait(), 128 + SIGKILL) << "round " << round;

    const Checkpoint last = Checkpoint::open(tiny.run());  // complete, or it would throw
    const Json state = parse_json(read_file(last.path() / "train.json"), "train.json");
    const auto step = state["step"].get<int64_t>();
    EXPECT_GT(step, before) << "a kill loses nothing that was saved";
    before = step;
    const Model model(last);
    ThreadPool pool(1);
    Session session(model, pool, 4);
    const std::vector<int32_t> ids = {1, 2, 3};
    for (const float logit : session.forward(ids, LogitRows::kAll))
      ASSERT_TRUE(std::isfinite(logit));
  }
  // Leftovers of the killed writers are gone once somebody trains here again.
  RunDirectory run(tiny.run());
  expect_no_leftovers(tiny);
}

TEST(TrainCommand, FullDisk_ExitsWith5AndLeavesNothing) {
  TinyRun tiny;
  const Process process(tiny, {}, 20000);  // bytes a file may have: less than a checkpoint
  EXPECT_EQ(process.wait(), 5);
  EXPECT_TRUE(std::filesystem::is_empty(tiny.run() / "checkpoints"));
}

TEST(TrainCommand, DiskThatFillsUp_KeepsTheLastCheckpoint) {
  TinyRun tiny;
  tiny.config.train.steps = 1000000;
  tiny.config.train.warmup = 4;
  tiny.config.taper.end = 25;
  {
    const Process process(tiny, {});
    wait_for_checkpoint_beyond(tiny, 0);
    process.signal(SIGKILL);
    process.wait();
  }
  const int64_t before = latest_step(tiny);
  ASSERT_GT(before, 0);
  const Process full(tiny, {"--resume"}, 20000);
  EXPECT_EQ(full.wait(), 5);
  EXPECT_EQ(latest_step(tiny), before);
  const Checkpoint last = Checkpoint::open(tiny.run());  // complete, or it would throw
  EXPECT_EQ(last.path().filename(), "step-" + std::to_string(before));
  expect_no_leftovers(tiny);
}

// Address space for some threads' stacks, not for a thousand.
TEST(TrainCommand, ThreadsThatCannotBeStarted_ExitWith5) {
  TinyRun tiny;
  const std::string program = std::string(TAPER_BIN_DIR) + "/taper";
  const CommandResult result =
      run_command("/bin/sh", {"-c", "ulimit -v 2000000; exec " + program + " train " +
                                        tiny.write_config().string() +
                                        " --set train.threads=1000 --out " + tiny.run().string()});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot start 1000 threads"));
}

TEST(TrainCommand, ModelBeyondTheMemory_ExitsWith5BeforeItTakesAny) {
  TinyRun tiny;
  const CommandResult result =
      train(tiny, {"--set", "model.ffn_width=16000000", "--set", "model.layers=900"});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("GB of memory"));
  EXPECT_THAT(result.err, HasSubstr("train.window"));
}

TEST(TrainCommand, UnwritableFolder_ExitsWith5) {
  TinyRun tiny;
  const CommandResult result =
      run_command("taper", {"train", tiny.write_config().string(), "--out", "/proc/no/such"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("--out"));
}

}  // namespace
}  // namespace taper
