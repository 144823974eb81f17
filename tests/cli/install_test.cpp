// What `cmake --install` puts where, and the installed program at work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/run_command.h"
#include "core/file.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

CommandResult install(const std::string& environment, const std::string& prefix) {
  return run_command("/usr/bin/env", {environment, "cmake", "--install",
                                      fs::path(TAPER_BIN_DIR).parent_path(), "--prefix", prefix});
}

TEST(Install, Prefix_HoldsProgramPagesAndData) {
  const TempDir dir;
  const CommandResult result = install("DESTDIR=", dir.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* file :
       {"bin/taper", "share/man/man1/taper.1", "share/bash-completion/completions/taper",
        "share/zsh/site-functions/_taper", "share/fish/vendor_completions.d/taper.fish",
        "share/doc/taper/LICENSE", "share/taper/configs/demo-taper.toml",
        "share/taper/bench/peers/train_torch.py"})
    EXPECT_TRUE(fs::is_regular_file(dir / file)) << file;
  EXPECT_THAT(read_file(dir / "share/man/man1/taper.1"), HasSubstr(".TH TAPER 1"));
  EXPECT_THAT(read_file(dir / "share/bash-completion/completions/taper"),
              HasSubstr("complete -F _taper taper"));
}

TEST(Install, InstalledProgram_RunsFromAnotherFolderWithoutTheBuild) {
  const TempDir dir;
  ASSERT_EQ(install("DESTDIR=", dir.path()).exit_code, 0);
  const CommandResult version =
      run_command("/bin/sh", {"-c", "cd / && '" + (dir / "bin/taper").string() + "' --version"});
  EXPECT_EQ(version.exit_code, 0) << version.err;
  EXPECT_THAT(version.out, MatchesRegex("taper [0-9.]+\n"));
  const CommandResult sections = run_command("/usr/bin/env", {"readelf", "-d", dir / "bin/taper"});
  ASSERT_EQ(sections.exit_code, 0) << sections.err;
  EXPECT_THAT(sections.out, Not(HasSubstr("RUNPATH")));
  EXPECT_THAT(sections.out, Not(HasSubstr("RPATH")));
}

TEST(Install, Destdir_GoesBeforeThePrefix) {
  const TempDir dir;
  const CommandResult result = install("DESTDIR=" + dir.path().string(), "/usr/local");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::is_regular_file(dir / "usr/local/bin/taper"));
}

}  // namespace
}  // namespace taper
