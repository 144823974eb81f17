#include "core/system_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace taper {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// The number a file begins with; kUnknown when there is none ("max").
int64_t read_number(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : kUnknown;
}

int64_t system_available(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    constexpr std::string_view key = "MemAvailable:";
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  }
  return kUnknown;
}

// Version 2 of control groups: each folder from the process's own up to the root may have a limit.
int64_t group_available(const fs::path& root) {
  const fs::path top = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  std::string line, group;
  while (std::getline(file, line))
    if (line.starts_with("0::/")) group = line.substr(4);
  int64_t available = kUnknown;
  for (fs::path folder = group;; folder = folder.parent_path()) {
    const int64_t limit = read_number(top / folder / "memory.max");
    const int64_t used = read_number(top / folder / "memory.current");
    if (limit != kUnknown && used != kUnknown)
      available = std::min(available, std::max<int64_t>(limit - used, 0));
    if (folder.empty()) return available;
  }
}

}  // namespace

int64_t available_memory(const fs::path& root) {
  return std::min(system_available(root), group_available(root));
}

}  // namespace taper
