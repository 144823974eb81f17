// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>

namespace taper {

// The smaller of what the system has available (MemAvailable) and what the control groups of this
// process leave, in bytes; the largest int64 where neither is known. `root` is "/" but in tests.
int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace taper
