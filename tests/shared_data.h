// Where the optional test data lies: text and small models that are not part of the repository.
// A test that needs them calls GTEST_SKIP when this is empty, so that the skip is visible:
//   const auto data = shared_data();
//   if (!data) GTEST_SKIP() << kNoSharedData;
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace taper {

inline constexpr const char* kNoSharedData = "set TAPER_SHARED_DATA to the folder of test data";

inline std::optional<std::filesystem::path> shared_data() {
  std::error_code ignored;
  if (const char* variable = std::getenv("TAPER_SHARED_DATA")) {
    if (std::filesystem::is_directory(variable, ignored)) return variable;
    return std::nullopt;
  }
  const auto sibling = std::filesystem::path(TAPER_SOURCE_DIR) / ".." / "shared" / "data";
  if (std::filesystem::is_directory(sibling, ignored)) return sibling.lexically_normal();
  return std::nullopt;
}

}  // namespace taper
