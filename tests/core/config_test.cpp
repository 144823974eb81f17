#include "core/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/file.h"
#include "temp_dir.h"

namespace taper {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// A small tree with every type, and its schema.
struct Tree {
  bool resume = true;
  int64_t steps = 2000;
  double rate = 3e-4;
  std::string name = "tiny \"one\"";
  std::vector<double> betas = {0.9, 0.95};
  std::vector<std::string> files;
  std::string loose = "x";

  ConfigSchema schema;

  Tree() {
    schema.section("train", "Optimisation");
    schema.section("data", "Input");
    schema.add("train.steps", &steps, "optimizer steps");
    schema.add("train.rate", &rate, "peak learning rate");
    schema.add("train.betas", &betas, "decay of the moments");
    schema.add("data.files", &files, "token files");
    schema.add("train.resume", &resume, "continue a run");
    schema.add("data.name", &name, "");
    schema.add("log.deep.loose", &loose, "in a section that was not declared");
  }

  void load(const std::string& text) {
    const TempDir dir;
    plain_write(dir / "a.toml", text);
    schema.load_file(dir / "a.toml");
  }
};

// What loading `text`, or setting it, says.
template <typename Action>
ConfigError error_of(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return ConfigError("none");
}

ConfigError load_error(const std::string& text) {
  return error_of([&] { Tree().load(text); });
}

ConfigError set_error(const std::string& assignment) {
  return error_of([&] { Tree().schema.set(assignment); });
}

TEST(Config, File_SetsWhatItNamesAndNothingElse) {
  Tree tree;
  tree.load(
      "data.name = 'plain'\n[train]\nsteps = 7\nbetas = [1, 0.5]\nresume = false\n"
      "[log.deep]\nloose = \"\"\"y\"\"\"\n");
  EXPECT_EQ(tree.steps, 7);
  EXPECT_EQ(tree.rate, 3e-4);
  EXPECT_THAT(tree.betas, ElementsAre(1.0, 0.5));
  EXPECT_FALSE(tree.resume);
  EXPECT_EQ(tree.name, "plain");
  EXPECT_EQ(tree.loose, "y");
  EXPECT_TRUE(tree.schema.was_set("train.steps"));
  EXPECT_FALSE(tree.schema.was_set("train.rate"));
}

TEST(Config, IntegerForADouble_AndADoubleWithoutFractionForAnInteger_AreAccepted) {
  Tree tree;
  tree.load("[train]\nrate = 1\nsteps = 1e3\n");
  EXPECT_EQ(tree.rate, 1.0);
  EXPECT_EQ(tree.steps, 1000);
}

TEST(Config, UnknownKey_NamesFileLineAndNearestKey) {
  const ConfigError error = load_error("[train]\n\nstesp = 5\n");
  EXPECT_THAT(error.what(), HasSubstr("a.toml: unknown key train.stesp (line 3)"));
  EXPECT_EQ(error.hint(), "did you mean train.steps?");
  EXPECT_EQ(error.code(), ExitCode::kUsage);
}

TEST(Config, KeyInAWrongSection_SuggestsTheRightOne) {
  EXPECT_EQ(load_error("[data]\nbetas = []\n").hint(), "did you mean train.betas?");
  EXPECT_EQ(load_error("resume = true\n").hint(), "did you mean train.resume?");
  EXPECT_EQ(load_error("[train]\nzzzzzz = true\n").hint(), "");
}

TEST(Config, UnknownSection_NamesLineAndSections) {
  ConfigError error = load_error("[trian]\nsteps = 5\n");
  EXPECT_THAT(error.what(), HasSubstr("unknown section trian (line 1)"));
  EXPECT_EQ(error.hint(), "did you mean [train]?");
  error = load_error("\n[optimizer]\nsteps = 5\n");
  EXPECT_THAT(error.what(), HasSubstr("unknown section optimizer (line 2)"));
  EXPECT_EQ(error.hint(), "the sections are train, data, log.deep");
}

TEST(Config, SectionGivenAValue_IsAnError) {
  EXPECT_THAT(load_error("train = 5\n").what(), HasSubstr("train is a section, found 5 (line 1)"));
  EXPECT_THAT(load_error("[[train]]\nsteps = 5\n").what(), HasSubstr("train is a section"));
}

TEST(Config, WrongType_NamesLineExpectedAndFound) {
  const std::pair<const char*, const char*> cases[] = {
      {"steps = 'many'", "train.steps (line 2): expected an integer, found 'many'"},
      {"steps = 1.5", "train.steps (line 2): expected an integer, found 1.5"},
      {"steps = inf", "train.steps (line 2): expected an integer, found inf"},
      {"steps = nan", "train.steps (line 2): expected an integer, found nan"},
      {"steps = 1e30", "train.steps (line 2): expected an integer, found 1e+30"},
      {"steps = true", "train.steps (line 2): expected an integer, found true"},
      {"steps = [5]", "train.steps (line 2): expected an integer, found [ 5 ]"},
      {"steps.most = 5", "train.steps (line 2): expected an integer"},
      {"rate = 'x'", "train.rate (line 2): expected a number, found 'x'"},
      {"rate = 2024-01-01", "train.rate (line 2): expected a number, found 2024-01-01"},
      {"resume = 1", "train.resume (line 2): expected true or false, found 1"},
      {"betas = 0.9", "train.betas (line 2): expected a list of numbers, found 0.9"},
      {"betas = [0.9, 'x']", "train.betas (line 2): expected a list of numbers"},
  };
  for (const auto& [line, message] : cases)
    EXPECT_THAT(load_error(std::string("[train]\n") + line + "\n").what(), HasSubstr(message));
  EXPECT_THAT(load_error("[data]\nname = 5\n").what(), HasSubstr("expected a string, found 5"));
  EXPECT_THAT(load_error("[data]\nfiles = 'a'\n").what(), HasSubstr("expected a list of strings"));
  EXPECT_EQ(load_error("[train]\nsteps = ''\n").hint(), "train.steps: optimizer steps");
}

TEST(Config, SyntaxErrorAndDuplicateKey_NameFileLineAndColumn) {
  EXPECT_THAT(load_error("[train]\nsteps = = 5\n").what(), HasSubstr("a.toml: line 2, column 9: "));
  EXPECT_THAT(load_error("[train]\nsteps = 5\nsteps = 6\n").what(), HasSubstr("line 3"));
  EXPECT_THAT(load_error("[train\n").what(), HasSubstr("line 1"));
  EXPECT_THAT(load_error("[train]\nsteps = 99999999999999999999\n").what(), HasSubstr("line 2"));
  EXPECT_THAT(load_error("[data]\nname = \"\xff\"\n").what(), HasSubstr("a.toml: line 2"));
}

TEST(Config, AbsentFile_IsNamed) {
  Tree tree;
  EXPECT_THROW(tree.schema.load_file("/nonexistent/a.toml"), FormatError);
}

TEST(Config, Assignments_ParseAsToml) {
  Tree tree;
  tree.schema.set("train.steps=100");
  tree.schema.set(" train.rate = 1e-3 ");
  tree.schema.set("train.resume=false");
  tree.schema.set("train.betas=[0.5, 1]");
  tree.schema.set("data.files=['a.tok', 'b.tok']");
  EXPECT_EQ(tree.steps, 100);
  EXPECT_EQ(tree.rate, 1e-3);
  EXPECT_FALSE(tree.resume);
  EXPECT_THAT(tree.betas, ElementsAre(0.5, 1.0));
  EXPECT_THAT(tree.files, ElementsAre("a.tok", "b.tok"));
  EXPECT_TRUE(tree.schema.was_set("train.steps"));
  EXPECT_FALSE(tree.schema.was_set("data.name"));
}

TEST(Config, AssignedStrings_MayBeBareWords) {
  Tree tree;
  for (const char* word : {"llama", "100", "true", "a=b", "runs/a b#c", "[x]", "back\\slash", ""}) {
    tree.schema.set(std::string("data.name=") + word);
    EXPECT_EQ(tree.name, word);
  }
  tree.schema.set("data.name='quoted \\n'");
  EXPECT_EQ(tree.name, "quoted \\n");
  tree.schema.set("data.name=\"line\\nbreak\"");
  EXPECT_EQ(tree.name, "line\nbreak");
  tree.schema.set("data.files=a.tok");
  EXPECT_THAT(tree.files, ElementsAre("a.tok"));
}

TEST(Config, BadAssignments_SayWhatIsExpected) {
  EXPECT_THAT(set_error("train.steps").what(), HasSubstr("expected section.key=value"));
  EXPECT_THAT(set_error("train.stepz=1").what(), HasSubstr("unknown key train.stepz"));
  EXPECT_EQ(set_error("train.stepz=1").hint(), "did you mean train.steps?");
  EXPECT_EQ(set_error("steps=1").hint(), "did you mean train.steps?");
  EXPECT_THAT(set_error("train.steps=").what(), HasSubstr("expected an integer, found nothing"));
  EXPECT_THAT(set_error("train.steps=ten").what(), HasSubstr("expected an integer, found ten"));
  EXPECT_THAT(set_error("train.steps='1'").what(), HasSubstr("expected an integer, found '1'"));
  EXPECT_THAT(set_error("train.resume=yes").what(), HasSubstr("expected true or false, found yes"));
  EXPECT_THAT(set_error("train.steps=1\nx=2").what(), HasSubstr("expected an integer"));
  EXPECT_THAT(set_error("train.steps=1\n[x]").what(), HasSubstr("expected an integer"));
  EXPECT_THAT(set_error("data.name=\xff").what(), HasSubstr("expected a string"));
}

TEST(Config, DumpThenLoad_IsTheIdentity) {
  Tree tree;
  tree.steps = std::numeric_limits<int64_t>::min();
  tree.rate = 0.1 + 0.2;
  tree.name = "quote\" back\\ tab\t line\n bell\a del\x7f nul\0 gr\xc3\xbc\xc3\x9f"s;
  tree.betas = {1e-300,
                -0.0,
                5.0,
                1e22,
                std::numeric_limits<double>::denorm_min(),
                std::numeric_limits<double>::max(),
                std::numeric_limits<double>::infinity(),
                -std::numeric_limits<double>::infinity(),
                1.0 / 3};
  tree.files = {"", "a, b", "c]"};
  const std::string dump = tree.schema.dump();
  Tree loaded;
  loaded.load(dump);
  EXPECT_EQ(loaded.schema.dump(), dump);
  EXPECT_EQ(loaded.steps, tree.steps);
  EXPECT_EQ(loaded.rate, tree.rate);
  EXPECT_EQ(loaded.name, tree.name);
  EXPECT_EQ(loaded.files, tree.files);
  ASSERT_EQ(loaded.betas.size(), tree.betas.size());
  for (size_t i = 0; i < tree.betas.size(); ++i) {
    EXPECT_EQ(loaded.betas[i], tree.betas[i]);
    EXPECT_EQ(std::signbit(loaded.betas[i]), std::signbit(tree.betas[i]));
  }
  for (const char* key : {"train.steps", "train.rate", "data.files", "log.deep.loose"})
    EXPECT_TRUE(loaded.schema.was_set(key));
}

TEST(Config, Dump_KeepsTheOrderOfSectionsAndKeys) {
  EXPECT_EQ(Tree().schema.dump(),
            "[train]\nsteps = 2000\nrate = 0.0003\nbetas = [0.9, 0.95]\nresume = true\n\n"
            "[data]\nfiles = []\nname = \"tiny \\\"one\\\"\"\n\n"
            "[log.deep]\nloose = \"x\"\n");
}

TEST(Config, Help_ShowsDefaultsNotPresentValues) {
  Tree tree;
  tree.steps = 5;
  const std::string help = tree.schema.help();
  EXPECT_THAT(help, HasSubstr("[train]  Optimisation\n  steps = 2000\n      optimizer steps\n"));
  EXPECT_THAT(help, HasSubstr("[data]  Input\n  files = []\n      token files\n"));
}

TEST(Config, SameKeyTwiceInTheSchema_IsABugOfOurs) {
  Tree tree;
  EXPECT_THROW(tree.schema.add("train.steps", &tree.steps, ""), std::logic_error);
  EXPECT_THROW(tree.schema.section("train", ""), std::logic_error);
}

TEST(Config, KeysWithoutASection_ComeFirst) {
  int64_t seed = 3;
  Tree tree;
  tree.schema.add("seed", &seed, "");
  EXPECT_EQ(tree.schema.dump().rfind("seed = 3\n\n[train]\n", 0), 0u);
  tree.load("seed = 4\n");
  EXPECT_EQ(seed, 4);
}

}  // namespace
}  // namespace taper
