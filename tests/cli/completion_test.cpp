// Completion scripts: complete, valid in their shells, and bash's at work.
#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/run_command.h"
#include "temp_dir.h"

namespace taper {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

bool is_installed(const std::string& program) {
  return run_command("/bin/sh", {"-c", "command -v " + program}).exit_code == 0;
}

// What bash offers for the last of `words` in a folder with the file "a.tok" and the folder "runs".
std::vector<std::string> completed(const std::vector<std::string>& words) {
  const TempDir folder;
  plain_write(folder / "a.tok", "");
  std::filesystem::create_directory(folder / "runs");
  std::string script = "cd '" + folder.path().string() + "'\nCOMP_WORDS=(";
  for (const std::string& word : words) script += " '" + word + "'";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
            "\n_taper\nfor word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done\n";
  const CommandResult result =
      run_command("/bin/bash", {"-c", bash_completion(command_line()) + script});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  std::vector<std::string> lines;
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Completion, EveryCommandAndOption_IsInEveryScript) {
  const CommandInfo root = command_line();
  const std::string bash = bash_completion(root), zsh = zsh_completion(root),
                    fish = fish_completion(root);
  for_each_command(root, [&](const CommandInfo& command) {
    EXPECT_THAT(bash, HasSubstr("\"" + command.path + "\")"));
    EXPECT_THAT(fish, HasSubstr("'" + command.path + "'"));
    const bool is_called = zsh.find("        " + command.name + ") _") != std::string::npos;
    EXPECT_TRUE(is_called || command.path == root.path) << command.path;
    for (const OptionInfo& option : command.options) {
      for (const std::string& name : option.long_names) {
        EXPECT_THAT(bash, HasSubstr(name));
        EXPECT_THAT(zsh, HasSubstr(name));
        EXPECT_THAT(fish, HasSubstr("-l " + name.substr(2)));
      }
    }
  });
}

TEST(BashCompletion, Commands_AreOfferedAtTheirLevel) {
  EXPECT_THAT(completed({"taper", "tok"}), ElementsAre("tokenizer"));
  EXPECT_THAT(completed({"taper", "tokenizer", ""}),
              UnorderedElementsAre("train", "encode", "decode"));
  EXPECT_THAT(completed({"taper", "help", "fo"}), ElementsAre("fold"));
}

TEST(BashCompletion, Options_AreThoseOfTheCommand) {
  EXPECT_THAT(completed({"taper", "fold", "--verify-d"}), ElementsAre("--verify-data"));
  EXPECT_THAT(completed({"taper", "fold", "runs", "--fo"}), ElementsAre("--force"));
  EXPECT_THAT(completed({"taper", "tokenizer", "encode", "--te"}), ElementsAre("--text"));
  EXPECT_THAT(completed({"taper", "--"}), UnorderedElementsAre("--help", "--version"));
}

TEST(BashCompletion, Values_ArePathsChoicesOrNothing) {
  EXPECT_THAT(completed({"taper", "fold", "--verify-data", ""}),
              UnorderedElementsAre("a.tok", "runs"));
  EXPECT_THAT(completed({"taper", "fold", "--verify-data", "=", "a"}), ElementsAre("a.tok"));
  EXPECT_THAT(completed({"taper", "data", "prepare", "--input", "a.tok", ""}), Contains("runs"));
  EXPECT_THAT(completed({"taper", "fold", ""}), ElementsAre("runs"));
  EXPECT_THAT(completed({"taper", "completion", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(completed({"taper", "fold", "--threads", ""}), IsEmpty());
}

// Quotes, brackets and colons in a description must not end a string or a field of any shell.
class ScriptOfOddTexts : public ::testing::Test {
 protected:
  ScriptOfOddTexts() {
    root_.path = root_.name = "taper";
    CommandInfo odd;
    odd.path = "taper odd";
    odd.name = "odd";
    OptionInfo option;
    option.short_names = {"-x"};
    option.long_names = {"--xx"};
    option.value = "N";
    option.kind = ValueKind::kText;
    odd.summary = option.text = "it's: [a] \\ \"b\" $c `d`";
    odd.options = {option};
    root_.commands.push_back(odd);
  }
  static void expect_valid(const std::string& shell, const std::string& script) {
    if (!is_installed(shell)) GTEST_SKIP() << shell << " is not installed";
    const TempDir folder;
    plain_write(folder / "script", script);
    const CommandResult result =
        run_command("/usr/bin/env", {shell, "-n", (folder / "script").string()});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
  }
  CommandInfo root_;
};

TEST_F(ScriptOfOddTexts, Bash_Parses) {
  expect_valid("bash", bash_completion(command_line()) + bash_completion(root_));
}
TEST_F(ScriptOfOddTexts, Zsh_Parses) {
  expect_valid("zsh", zsh_completion(command_line()) + zsh_completion(root_));
}
TEST_F(ScriptOfOddTexts, Fish_Parses) {
  expect_valid("fish", fish_completion(command_line()) + fish_completion(root_));
}

TEST(CompletionCommand, EachShell_GetsItsScript) {
  EXPECT_THAT(run_command("taper", {"completion", "bash"}).out, HasSubstr("complete -F _taper"));
  EXPECT_THAT(run_command("taper", {"completion", "zsh"}).out, HasSubstr("#compdef taper\n"));
  EXPECT_THAT(run_command("taper", {"completion", "fish"}).out, HasSubstr("complete -c taper -f"));
  EXPECT_EQ(run_command("taper", {"completion", "tcsh"}).exit_code, 2);
}

}  // namespace
}  // namespace taper
