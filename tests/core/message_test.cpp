// Errors, log lines, progress, interrupts and suggestions: what people see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/nearest.h"
#include "core/version.h"

namespace taper {
namespace {

using testing::HasSubstr;

TEST(Error, EachType_HasItsExitCode) {
  EXPECT_EQ(ConfigError("a").code(), ExitCode::kUsage);
  EXPECT_EQ(FormatError("a").code(), ExitCode::kBadInput);
  EXPECT_EQ(ShapeError("a").code(), ExitCode::kBadInput);
  EXPECT_EQ(NumericsError("a").code(), ExitCode::kNumerics);
  EXPECT_EQ(ResourceError("a").code(), ExitCode::kResource);
  EXPECT_EQ(Interrupted("a").code(), ExitCode::kInterrupted);
  EXPECT_EQ(ResourceError("a", "b").hint(), "b");
}

TEST(Check, FalseCondition_NamesFileLineAndCondition) {
  try {
    TAPER_CHECK(1 + 1 == 3);
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("message_test.cpp:"));
    EXPECT_THAT(error.what(), HasSubstr("check failed: 1 + 1 == 3"));
  }
}

TEST(Log, QuietLevel_DropsLinesAndProgressButNotWarnings) {
  testing::internal::CaptureStderr();
  set_log_level(LogLevel::kQuiet);
  log_info("line {}", 1);
  log_warning("odd value 7");
  { Progress("work", 10, "steps").update(10); }
  set_log_level(LogLevel::kNormal);
  log_info("line {}", 2);
  log_warning("odd value 7");
  log_warning("odd value 8");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: odd value 7\nline 2\nwarning: odd value 8\n");
}

TEST(Progress, Piped_PrintsNothingInItsFirstSeconds) {
  testing::internal::CaptureStderr();
  {
    Progress progress("work", 1000, "steps");
    for (int i = 0; i <= 1000; ++i) progress.update(i, "loss 1.0");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(FormatDuration, Seconds_ReadNaturally) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(12.4), "12s");
  EXPECT_EQ(format_duration(59.6), "1m 00s");
  EXPECT_EQ(format_duration(185), "3m 05s");
  EXPECT_EQ(format_duration(3720), "1h 02m");
  EXPECT_EQ(format_duration(100 * 3600), "100h 00m");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
}

int child_status(void (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_interrupt_handler();
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Interrupt, FirstSignal_SetsTheFlag) {
  for (const auto body : {+[] {
                            if (interrupted()) ::_exit(1);
                            std::raise(SIGINT);
                            if (!interrupted()) ::_exit(2);
                            try {
                              throw_if_interrupted();
                            } catch (const Interrupted&) {
                              ::_exit(7);
                            }
                          },
                          +[] {
                            std::raise(SIGTERM);
                            ::_exit(interrupted() ? 7 : 2);
                          }})
    EXPECT_EQ(WEXITSTATUS(child_status(body)), 7);
}

TEST(Interrupt, SecondSignal_EndsTheProcess) {
  const int status = child_status([] {
    std::raise(SIGINT);
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(NearestName, Misspelling_FindsTheName) {
  const std::vector<std::string> names = {"tokenizer", "train", "data", "info", "--seed"};
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("tokeniser", names), "tokenizer");
  EXPECT_EQ(nearest_name("dat", names), "data");
  EXPECT_EQ(nearest_name("--sed", names), "--seed");
  EXPECT_EQ(nearest_name("ifno", names), "info");
  EXPECT_EQ(nearest_name("xyz", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("train", {}), "");
}

TEST(Bf16, Rounding_IsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(0x1.01p0f).bits, 0x3f80);      // half way, to even: down
  EXPECT_EQ(to_bf16(0x1.03p0f).bits, 0x3f82);      // half way, to even: up
  EXPECT_EQ(to_bf16(0x1.010002p0f).bits, 0x3f81);  // just above half
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::max()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  for (uint32_t bits = 0; bits < 0x7f80; bits += 7) {
    const bf16 value = {static_cast<uint16_t>(bits)};
    ASSERT_EQ(to_bf16(to_float(value)).bits, value.bits);
  }
}

TEST(Version, Text_IsThreeNumbers) {
  EXPECT_THAT(std::string(version()), testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
}

}  // namespace
}  // namespace taper
