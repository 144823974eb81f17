#include "core/system_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/file.h"
#include "temp_dir.h"

namespace taper {
namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  write_file_atomically(path, text);
}

TEST(AvailableMemory, ThisMachine_HasSome) {
  EXPECT_GT(available_memory(), 1 << 20);
  EXPECT_LT(available_memory(), int64_t{1} << 50);
}

TEST(AvailableMemory, ControlGroups_LimitItAtEveryLevel) {
  const TempDir dir;
  const auto& root = dir.path();
  EXPECT_EQ(available_memory(root), std::numeric_limits<int64_t>::max()) << "nothing is known";
  put(root / "proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   50 kB\n");
  EXPECT_EQ(available_memory(root), 50 * 1024);
  put(root / "proc/self/cgroup", "0::/user/job\n");
  put(root / "sys/fs/cgroup/user/job/memory.max", "max\n");
  put(root / "sys/fs/cgroup/user/job/memory.current", "900\n");
  EXPECT_EQ(available_memory(root), 50 * 1024);
  put(root / "sys/fs/cgroup/user/memory.max", "3000\n");
  put(root / "sys/fs/cgroup/user/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root), 2000);
  put(root / "sys/fs/cgroup/user/job/memory.max", "800\n");
  EXPECT_EQ(available_memory(root), 0) << "more is used than allowed";
}

}  // namespace
}  // namespace taper
