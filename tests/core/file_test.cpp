#include "core/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "core/error.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

size_t num_entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// Runs `body` in a child process and returns its status; for limits and kills.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

template <typename E, typename Action>
E error_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return E("none");
}

TEST(MappedFile, Bytes_AreThoseOfTheFile) {
  const TempDir dir;
  plain_write(dir / "a", std::string("x\0y", 3));
  MappedFile file(dir / "a");
  ASSERT_EQ(file.bytes().size(), 3u);
  EXPECT_EQ(file.bytes()[2], std::byte{'y'});
  MappedFile moved(std::move(file));
  EXPECT_TRUE(file.bytes().empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.bytes().size(), 3u);
  plain_write(dir / "empty", "");
  moved = MappedFile(dir / "empty");
  EXPECT_TRUE(moved.bytes().empty());
}

TEST(MappedFile, AbsentFileOrFolderOrPipe_IsAFormatErrorThatNamesIt) {
  const TempDir dir;
  EXPECT_THAT(error_of<FormatError>([&] { MappedFile(dir / "no"); }).what(),
              HasSubstr((dir / "no").string() + ": no such file"));
  EXPECT_THAT(error_of<FormatError>([&] { MappedFile(dir.path()); }).what(),
              HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  const int keep = ::open((dir / "pipe").c_str(), O_RDWR);  // so that opening it does not wait
  EXPECT_THAT(error_of<FormatError>([&] { MappedFile(dir / "pipe"); }).what(),
              HasSubstr("not a regular file"));
  ::close(keep);
}

TEST(ReadFile, AnySize_IsReadWholeAndCapped) {
  const TempDir dir;
  for (const size_t size : {0, 1, 4095, 4096, 4097, 100'000}) {
    const std::string text(size, 'x');
    plain_write(dir / "a", text);
    EXPECT_EQ(read_file(dir / "a"), text);
    EXPECT_EQ(read_file(dir / "a", size), text);
    if (size == 0) continue;
    EXPECT_THROW(read_file(dir / "a", size - 1), FormatError);
  }
  EXPECT_FALSE(read_file("/proc/self/status").empty());  // reports size 0
  EXPECT_THROW(read_file(dir.path()), FormatError);
  EXPECT_THROW(read_file(dir / "no"), FormatError);
  EXPECT_THROW(read_file(dir / "a" / "below"), FormatError);
}

TEST(AtomicFile, Commit_ReplacesTheOldFileAndLeavesNoTemporary) {
  const TempDir dir;
  plain_write(dir / "a", "old");
  AtomicFile file(dir / "a");
  file.write("0123456789");
  file.write(std::string(3 << 20, 'z'));
  file.write("end");
  file.write_at(2, "ab", 2);
  EXPECT_EQ(read_file(dir / "a"), "old");
  file.commit();
  const std::string text = read_file(dir / "a");
  EXPECT_EQ(text.size(), 10u + (3u << 20) + 3u);
  EXPECT_EQ(text.substr(0, 11), "01ab456789z");
  EXPECT_EQ(text.substr(text.size() - 4), "zend");
  EXPECT_EQ(num_entries(dir.path()), 1u);
}

TEST(AtomicFile, WithoutCommit_TheOldFileStaysAndNothingElse) {
  const TempDir dir;
  plain_write(dir / "a", "old");
  {
    AtomicFile file(dir / "a");
    file.write("new");
    EXPECT_EQ(num_entries(dir.path()), 2u);
  }
  EXPECT_EQ(read_file(dir / "a"), "old");
  EXPECT_EQ(num_entries(dir.path()), 1u);
}

TEST(AtomicFile, ProcessKilledBeforeCommit_LeavesTheOldFileAndAStaleTemporary) {
  const TempDir dir;
  plain_write(dir / "a", "old");
  const int status = in_child([&] {
    AtomicFile file(dir / "a");
    file.write(std::string(3 << 20, 'x'));
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(dir / "a"), "old");
  EXPECT_EQ(num_entries(dir.path()), 2u);
  AtomicFile running(dir / "b");  // the temporary of a living process stays
  EXPECT_EQ(remove_stale_temporaries(dir.path()), 1);
  EXPECT_EQ(num_entries(dir.path()), 2u);
  running.commit();
  EXPECT_EQ(read_file(dir / "b"), "");
}

TEST(AtomicFile, StaleTemporaries_OfOtherNamesStay) {
  const TempDir dir;
  for (const char* name : {"a.tmp-", "a.tmp-1x-1", "a.tmp-999999999", "a.tmp-999999999-", "tmp"})
    plain_write(dir / name, "");
  EXPECT_EQ(remove_stale_temporaries(dir.path()), 0);
  plain_write(dir / "a.tmp-999999999-0", "");
  EXPECT_EQ(remove_stale_temporaries(dir.path()), 1);
  EXPECT_EQ(remove_stale_temporaries(dir / "no"), 0);
}

// A limit on the size of files stands for a full disk: the same failing write, and room again
// later.
int write_beyond_limit(const fs::path& target, bool large) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {64 << 10, 64 << 10};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    AtomicFile file(target);
    file.write(std::string(large ? 2 << 20 : 128 << 10, 'x'));
    file.commit();
  } catch (const ResourceError& error) {
    const std::string what = error.what();
    const bool named = what.find(target.string()) != std::string::npos;
    return named && what.find("File too large") != std::string::npos && !error.hint().empty() ? 7
                                                                                              : 8;
  }
  return 9;
}

TEST(AtomicFile, FullDisk_IsAResourceErrorAndLeavesTheOldFile) {
  const TempDir dir;
  plain_write(dir / "a", "old");
  for (const bool large : {false, true}) {
    const int status = in_child([&] { return write_beyond_limit(dir / "a", large); });
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(read_file(dir / "a"), "old");
    EXPECT_EQ(num_entries(dir.path()), 1u);
  }
}

TEST(AtomicFile, MissingFolder_SaysHowToCreateIt) {
  const TempDir dir;
  const auto error = error_of<ResourceError>([&] { AtomicFile(dir / "no" / "a"); });
  EXPECT_THAT(error.what(), HasSubstr("the folder " + (dir / "no").string() + " does not exist"));
  EXPECT_EQ(error.hint(), "create it with: mkdir -p " + (dir / "no").string());
}

TEST(AtomicDirectory, MissingParents_AreMade) {
  const TempDir dir;
  AtomicDirectory made(dir / "no" / "such" / "run");
  plain_write(made.path() / "a", "text");
  made.commit();
  EXPECT_EQ(read_file(dir / "no" / "such" / "run" / "a"), "text");
}

TEST(AtomicDirectory, MissingParentsWithoutCommit_AreRemoved) {
  const TempDir dir;
  { AtomicDirectory abandoned(dir / "no" / "such" / "run"); }
  EXPECT_EQ(num_entries(dir.path()), 0u);
}

TEST(AtomicDirectory, ParentThatIsAFile_IsAResourceError) {
  const TempDir dir;
  plain_write(dir / "a", "");
  EXPECT_THROW(AtomicDirectory(dir / "a" / "run"), ResourceError);
  EXPECT_EQ(num_entries(dir.path()), 1u);
}

TEST(AtomicFile, MissingPermission_IsAResourceErrorWithTheReason) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0500), 0);
  const int status = in_child([&] {
    if (::getuid() == 0 && ::setuid(65534) != 0) return 1;  // the superuser may write anywhere
    ::chmod(dir.path().c_str(), 0500);
    try {
      AtomicFile file(dir / "a");
    } catch (const ResourceError& error) {
      const std::string what = error.what();
      return what.find("Permission denied") != std::string::npos ? 7 : 8;
    }
    return 9;
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  ::chmod(dir.path().c_str(), 0700);
}

TEST(AtomicFile, FolderOrDeviceAsTarget_IsRefused) {
  const TempDir dir;
  EXPECT_THAT(error_of<ConfigError>([&] { AtomicFile(dir.path()); }).what(),
              HasSubstr("is a folder"));
  EXPECT_THROW(AtomicFile(dir / ""), ConfigError);
  EXPECT_THAT(error_of<ConfigError>([&] { AtomicFile("/dev/null"); }).what(),
              HasSubstr("is a device or a pipe"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, SymbolicLinkAsTarget_StaysALink) {
  const TempDir dir;
  plain_write(dir / "real", "old");
  fs::create_symlink("real", dir / "link");
  write_file_atomically(dir / "link", "new");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(read_file(dir / "real"), "new");
}

TEST(AtomicFile, RelativeName_LandsInTheCurrentFolder) {
  const TempDir dir;
  const int status = in_child([&] {
    if (::chdir(dir.path().c_str()) != 0) return 1;
    write_file_atomically("a", "new");
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(dir / "a"), "new");
}

TEST(AtomicDirectory, Commit_AppearsAtOnce) {
  const TempDir dir;
  for (const fs::path& target : {dir / "a", dir / "b" / ""}) {
    AtomicDirectory folder(target);
    plain_write(folder.path() / "x", "1");
    fs::create_directory(folder.path() / "sub");
    plain_write(folder.path() / "sub" / "y", "2");
    EXPECT_FALSE(fs::exists(target));
    folder.commit();
    EXPECT_EQ(read_file(target / "sub" / "y"), "2");
    EXPECT_FALSE(fs::exists(folder.path()));
  }
  EXPECT_EQ(num_entries(dir.path()), 2u);
}

TEST(AtomicDirectory, WithoutCommit_LeavesNothing) {
  const TempDir dir;
  {
    AtomicDirectory folder(dir / "a");
    plain_write(folder.path() / "x", "1");
  }
  EXPECT_EQ(num_entries(dir.path()), 0u);
}

TEST(AtomicDirectory, ExistingTarget_IsKeptUnlessReplaced) {
  const TempDir dir;
  fs::create_directory(dir / "a");
  plain_write(dir / "a" / "old", "1");
  EXPECT_THAT(error_of<ConfigError>([&] { AtomicDirectory(dir / "a"); }).what(),
              HasSubstr("already exists"));
  AtomicDirectory folder(dir / "a", true);
  plain_write(folder.path() / "new", "2");
  EXPECT_TRUE(fs::exists(dir / "a" / "old"));
  folder.commit();
  EXPECT_FALSE(fs::exists(dir / "a" / "old"));
  EXPECT_EQ(read_file(dir / "a" / "new"), "2");
  EXPECT_EQ(num_entries(dir.path()), 1u);
  plain_write(dir / "file", "");
  EXPECT_THROW(AtomicDirectory(dir / "file", true), ConfigError);
}

TEST(AtomicDirectory, TargetThatAppearsMeanwhile_IsNotOverwritten) {
  const TempDir dir;
  AtomicDirectory folder(dir / "a");
  fs::create_directory(dir / "a");
  plain_write(dir / "a" / "theirs", "1");
  EXPECT_THROW(folder.commit(), ConfigError);
  EXPECT_EQ(read_file(dir / "a" / "theirs"), "1");
}

}  // namespace
}  // namespace taper
