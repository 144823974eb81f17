// Where taper finds the files that come with it.
#include "cli/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void make_file(const fs::path& path) {
  fs::create_directories(path.parent_path());
  plain_write(path, "x");
}

TEST(DataFile, InstalledFile_LiesBesideTheProgramsFolder) {
  const TempDir dir;
  make_file(dir / "share/taper/peers/a.py");
  EXPECT_EQ(data_file("peers/a.py", dir / "bin/taper"), dir / "share/taper/peers/a.py");
}

TEST(DataFile, BuiltProgram_FindsTheSourceTreeUnlessInstalledFilesAreThere) {
  const TempDir dir;
  make_file(dir / "peers/a.py");
  const fs::path program = dir / "build/release/bin/taper";
  EXPECT_EQ(data_file("peers/a.py", program), dir / "peers/a.py");
  make_file(dir / "build/release/share/taper/peers/a.py");
  EXPECT_EQ(data_file("peers/a.py", program), dir / "build/release/share/taper/peers/a.py");
}

TEST(DataFile, WorkingDirectory_ComesFirst) {
  const TempDir dir;
  const fs::path before = fs::current_path();
  make_file(dir / "here/a.py");
  make_file(dir / "share/taper/a.py");
  fs::current_path(dir / "here");
  EXPECT_EQ(data_file("a.py", dir / "bin/taper"), "a.py");
  fs::current_path(before);
}

TEST(DataFile, AbsentFile_IsAConfigErrorNamingThePlaces) {
  const TempDir dir;
  try {
    data_file("no/a.py", dir / "build/release/bin/taper");
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/a.py: not in the working directory, "));
    EXPECT_THAT(error.what(), HasSubstr((dir / "build/release/share/taper").string()));
    EXPECT_THAT(error.what(), HasSubstr(" or " + dir.path().string()));
  }
}

TEST(DataFile, ThisProgram_FindsTheConfigurations) {
  EXPECT_TRUE(fs::exists(data_file("configs/demo-taper.toml")));
}

}  // namespace
}  // namespace taper
