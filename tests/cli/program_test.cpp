// The frame of the command line: help, unknown names, errors and exit codes, output.
#include "cli/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/run_command.h"
#include "core/error.h"
#include "core/file.h"
#include "temp_dir.h"

namespace taper {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Printed {
  int exit_code;
  std::string out, err;
};

Printed captured(const std::function<int()>& body) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Printed printed;
  printed.exit_code = body();
  printed.out = testing::internal::GetCapturedStdout();
  printed.err = testing::internal::GetCapturedStderr();
  return printed;
}

Printed guarded(const std::function<void()>& body) {
  return captured([&] { return run_guarded(body); });
}

// A program with one command of each kind.
Printed run_sample(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "sample");
  return captured([&] {
    CLI::App root("a program for tests");
    set_up_root(root, "sample");
    CLI::App& score = add_command(root, kInspect, "score", "score a file");
    int64_t context = 512;
    std::string file;
    bool json = false;
    int threads = 0;
    score.add_option("FILE", file, "what to score")->required();
    score.add_option("-c,--context", context, "tokens of context")->type_name("N");
    add_json(score, json);
    add_quiet(score);
    add_threads(score, threads);
    std::string kind = "mean";
    score.add_option("--kind", kind, "which")->check(CLI::IsMember({"mean", "sum"}));
    score.callback([&] {
      if (json)
        print_json({{"file", file}, {"context", context}});
      else
        print_text(fmt::format("{} {} {}\n", file, context, threads));
    });
    CLI::App& group = add_command_group(root, kUse, "group", "a command of commands");
    add_subcommand(group, "first", "the first").callback([] { print_text("first\n"); });
    return run_program(root, static_cast<int>(arguments.size()), arguments.data());
  });
}

TEST(RunGuarded, EachError_HasItsExitCodeMessageAndHint) {
  Printed printed = guarded([] { throw ConfigError("a.toml: odd key", "use another"); });
  EXPECT_EQ(printed.exit_code, 2);
  EXPECT_EQ(printed.err, "error: a.toml: odd key\n  use another\n");
  EXPECT_EQ(guarded([] { throw FormatError("x"); }).err, "error: x\n");
  EXPECT_EQ(guarded([] { throw FormatError("x"); }).exit_code, 3);
  EXPECT_EQ(guarded([] { throw ShapeError("x"); }).exit_code, 3);
  EXPECT_EQ(guarded([] { throw NumericsError("x"); }).exit_code, 4);
  EXPECT_EQ(guarded([] { throw ResourceError("x"); }).exit_code, 5);
  printed = guarded([] { throw Interrupted("interrupted"); });
  EXPECT_EQ(printed.exit_code, 130);
  EXPECT_EQ(printed.err, "interrupted\n");
  EXPECT_EQ(guarded([] {}).exit_code, 0);
}

TEST(RunGuarded, OtherExceptions_AreOutOfMemoryTheSystemsOrOurBug) {
  Printed printed = guarded([] { throw std::bad_alloc(); });
  EXPECT_EQ(printed.exit_code, 5);
  EXPECT_THAT(printed.err, StartsWith("error: out of memory\n  "));
  printed = guarded([] { TAPER_CHECK(false); });
  EXPECT_EQ(printed.exit_code, 1);
  EXPECT_THAT(printed.err, StartsWith("error: internal error: "));
  EXPECT_THAT(printed.err, HasSubstr("please report"));
  printed = guarded([] { std::filesystem::create_directory("/nonexistent/x"); });
  EXPECT_EQ(printed.exit_code, 3);
  EXPECT_EQ(printed.err, "error: /nonexistent/x: No such file or directory\n");
  printed = guarded([] { throw std::system_error(ENOSPC, std::generic_category(), "x"); });
  EXPECT_EQ(printed.exit_code, 5);
  printed = guarded([] { throw ClosedPipe(); });
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_EQ(printed.err, "");
}

TEST(RunProgram, Command_RunsWithDefaultsAndFlags) {
  EXPECT_EQ(run_sample({"score", "a"}).out, "a 512 0\n");
  EXPECT_EQ(run_sample({"score", "-c", "7", "a", "--threads=3"}).out, "a 7 3\n");
  const Printed json = run_sample({"score", "a", "--json"});
  EXPECT_EQ(json.out, "{\"file\":\"a\",\"context\":512}\n");
  EXPECT_EQ(json.err, "");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_EQ(run_sample({"group", "first"}).out, "first\n");
}

TEST(RunProgram, Help_ShowsDefaultsAndGroups) {
  const Printed help = run_sample({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, StartsWith("sample - a program for tests\n\nUsage: sample COMMAND"));
  EXPECT_THAT(help.out, HasSubstr("Inspect:\n  score       score a file\n"));
  const Printed command = run_sample({"score", "--help"});
  EXPECT_THAT(command.out, StartsWith("sample score - score a file\n\nUsage: sample score FILE"));
  EXPECT_THAT(command.out, HasSubstr("Arguments:\n  FILE "));
  EXPECT_THAT(command.out, HasSubstr("-c, --context N         tokens of context [default: 512]\n"));
  EXPECT_THAT(command.out, HasSubstr("      --json              print one JSON object"));
  EXPECT_THAT(command.out, HasSubstr("-j, --threads N         threads to use, 0 for one a core "
                                     "(0 - 1024) [default:\n"));
  EXPECT_THAT(command.out,
              HasSubstr("--kind TEXT         which (one of mean, sum) [default: mean]"));
  EXPECT_EQ(run_sample({"help", "score"}).out, command.out);
  EXPECT_EQ(run_sample({"help"}).out, help.out);
  EXPECT_THAT(run_sample({"group", "first", "-h"}).out, StartsWith("sample group first - "));
}

TEST(RunProgram, NoArguments_PrintsTheHelpOnStderr) {
  const Printed printed = run_sample({});
  EXPECT_EQ(printed.exit_code, 2);
  EXPECT_EQ(printed.out, "");
  EXPECT_THAT(printed.err, HasSubstr("Usage: sample COMMAND"));
}

TEST(RunProgram, UsageErrors_ExitTwoAndNameTheNearest) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"scoer", "a"}, "error: sample has no command scoer\n  did you mean score?\n"},
      {{"zzz"}, "error: sample has no command zzz\n  see: sample --help\n"},
      {{"--jsn"}, "error: sample has no option --jsn\n  see: sample --help\n"},
      {{"score", "a", "--jsn"},
       "error: sample score has no option --jsn\n  did you mean --json?\n"},
      {{"score", "--contxt=5"},
       "error: sample score has no option --contxt\n  did you mean --context?\n"},
      {{"score", "a", "b"},
       "error: sample score does not expect the argument b\n  see: sample score --help\n"},
      {{"score"}, "error: sample score: FILE is required\n  see: sample score --help\n"},
      {{"score", "a", "-c"}, "error: sample score: "},
      {{"score", "a", "-c", "x"}, "error: sample score: "},
      {{"score", "a", "-j", "-1"}, "error: sample score: "},
      {{"group"}, "error: sample group needs a command: first\n  see: sample group --help\n"},
      {{"group", "frist"}, "error: sample group has no command frist\n  did you mean first?\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Printed printed = run_sample(arguments);
    EXPECT_EQ(printed.exit_code, 2) << message;
    EXPECT_EQ(printed.out, "");
    EXPECT_THAT(printed.err, StartsWith(message));
  }
}

TEST(TwoColumns, LongText_IsWrappedAndAligned) {
  const std::string page = two_columns("-x", std::string(100, 'a') + " bb " + "cc", 10);
  EXPECT_EQ(page, "  -x      " + std::string(100, 'a') + "\n          bb cc\n");
  EXPECT_EQ(two_columns("--long-name", "text", 10), "  --long-name\n          text\n");
}

TEST(PrintJson, OddValues_StayValidJson) {
  const Printed printed = guarded([] {
    print_json({{"nan", std::nan("")}, {"text", "\xff"}, {"line", "a\nb"}});
  });
  EXPECT_EQ(printed.out, "{\"nan\":null,\"text\":\"\xef\xbf\xbd\",\"line\":\"a\\nb\"}\n");
  EXPECT_EQ(guarded([] { print_json(5); }).exit_code, 1);
}

TEST(Taper, Help_ReadsLikeAManualPage) {
  const CommandResult result = run_command("taper", {"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  for (const char* part : {"Usage: taper COMMAND", "Exit codes:\n  0    done", "Examples:\n",
                           "Train:\n  train ", "taper COMMAND --help"})
    EXPECT_THAT(result.out, HasSubstr(part));
}

TEST(Taper, Version_IsOneLine) {
  for (const char* flag : {"--version", "-V"}) {
    const CommandResult result = run_command("taper", {flag});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, testing::MatchesRegex("taper [0-9.]+\n"));
  }
}

TEST(Taper, UnknownCommandOrFlag_IsAUsageErrorOnStderr) {
  CommandResult result = run_command("taper", {"tran"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "error: taper has no command tran\n  did you mean train?\n");
  result = run_command("taper", {"--verison"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "error: taper has no option --verison\n  did you mean --version?\n");
}

TEST(Taper, ClosedPipe_EndsQuietly) {
  const std::string taper = std::string(TAPER_BIN_DIR) + "/taper";
  const CommandResult result =
      run_command("/bin/sh", {"-c", "{ sleep 0.2; " + taper + " --help; echo $? >&2; } | true"});
  EXPECT_EQ(result.err, "0\n");
}

TEST(Taper, FullDiskBehindStdout_IsAResourceError) {
  const CommandResult result =
      run_command("/bin/sh", {"-c", std::string(TAPER_BIN_DIR) + "/taper --help > /dev/full"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("error: cannot write to stdout: No space left on device"));
}

TEST(RunCommand, InputAndLargeOutput_PassThroughThePipes) {
  const std::string input(3 << 20, 'x');
  EXPECT_EQ(run_command("/bin/cat", {}, input).out, input);
  EXPECT_EQ(run_command("/bin/true", {}, input).exit_code, 0);  // does not read it
  EXPECT_EQ(run_command("/nonexistent/program", {}).exit_code, 127);
}

}  // namespace
}  // namespace taper
