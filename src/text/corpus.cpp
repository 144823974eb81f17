#include "text/corpus.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "core/error.h"

namespace taper {

namespace fs = std::filesystem;

std::vector<fs::path> corpus_files(std::span<const fs::path> inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status))
      throw FormatError(fmt::format("{}: no such file or folder", input.string()));
    if (!fs::is_directory(status)) {
      files.push_back(input);
      continue;
    }
    std::vector<fs::path> found;
    fs::recursive_directory_iterator entries(input, error), end;
    if (error)
      throw ResourceError(fmt::format("{}: cannot be read: {}", input.string(), error.message()));
    for (; entries != end; entries.increment(error)) {
      if (error)
        throw ResourceError(fmt::format("{}: cannot be read: {}", input.string(), error.message()));
      if (entries->is_regular_file() && entries->path().extension() == ".txt")
        found.push_back(entries->path());
    }
    if (found.empty())
      throw FormatError(fmt::format("{}: the folder holds no .txt file", input.string()),
                        "name the files themselves if they end otherwise");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

int64_t MappedText::used_up_to(std::string_view rest) const {
  constexpr size_t kStep = size_t{16} << 20;
  const auto used = static_cast<size_t>(rest.data() - text().data());
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (used >= released_ + kStep) {
    const size_t end = used / page * page;
    // The map begins on a page, and `released_` is a multiple of one.
    ::madvise(const_cast<char*>(text().data()) + released_, end - released_, MADV_DONTNEED);
    released_ = end;
  }
  return static_cast<int64_t>(used);
}

int64_t total_file_size(std::span<const fs::path> files) {
  int64_t total = 0;
  for (const fs::path& path : files) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error)
      throw FormatError(fmt::format("{}: cannot be read: {}", path.string(), error.message()));
    total += static_cast<int64_t>(size);
  }
  return total;
}

}  // namespace taper
