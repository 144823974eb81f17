// The manual page: complete, and valid roff.
#include "cli/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/command_line.h"
#include "cli/run_command.h"

namespace taper {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A name as roff writes it.
std::string roff(std::string name) {
  for (size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2)
    name.replace(at, 1, "\\-");
  return name;
}

TEST(ManualPage, EveryCommandAndOption_IsOnIt) {
  const CommandInfo root = command_line();
  const std::string page = manual_page(root, "1.2");
  EXPECT_THAT(page, StartsWith(".TH TAPER 1 \"\" \"taper 1.2\" \"User Commands\"\n"));
  for_each_command(root, [&](const CommandInfo& command) {
    const bool is_headed = page.find(".SS \"" + roff(command.path) + "\"\n") != std::string::npos;
    EXPECT_EQ(is_headed, command.commands.empty()) << command.path;
    for (const OptionInfo& option : command.options)
      for (const std::string& name : option.long_names) EXPECT_THAT(page, HasSubstr(roff(name)));
  });
}

TEST(ManualPage, FooterOfTheRoot_BecomesSections) {
  const std::string page = manual_page(command_line(), "1.2");
  EXPECT_THAT(page, HasSubstr(".SH DESCRIPTION\nTrain transformers"));
  EXPECT_THAT(page, HasSubstr("Results go to stdout.\n.SH COMMANDS\n"));
  EXPECT_THAT(page, HasSubstr(".SH \"EXIT CODES\"\n.nf\n  0    done\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".SH \"EXAMPLES\"\n.nf\n  taper fold a b\n.fi\n"));
}

TEST(ManualPage, OddText_IsEscaped) {
  CommandInfo root;
  root.path = root.name = "taper";
  root.summary = "odd";
  root.footer = ".SH no \\request\n'br -x\n\nTry:\n  .a 'b' `c` \"d\" ^~\n\n  e";
  const std::string page = manual_page(root, "1");
  EXPECT_THAT(page, HasSubstr(".PP\n\\&.SH no \\erequest\n\\(aqbr \\-x\n.SH COMMANDS\n"));
  EXPECT_THAT(page, HasSubstr(".SH \"TRY\"\n.nf\n"
                              "  .a \\(aqb\\(aq \\(gac\\(ga \\(dqd\\(dq \\(ha\\(ti\n\n  e\n.fi\n"));
}

TEST(ManualPage, Groff_HasNoWarning) {
  if (run_command("/bin/sh", {"-c", "command -v groff"}).exit_code != 0)
    GTEST_SKIP() << "groff is not installed";
  const CommandResult page = run_command("taper", {"manual"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  const CommandResult result =
      run_command("/usr/bin/env", {"groff", "-man", "-Tutf8", "-ww"}, page.out);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_GT(result.out.size(), page.out.size() / 2);
}

}  // namespace
}  // namespace taper
