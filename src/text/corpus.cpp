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

void release_pages(std::string_view text) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(text.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(text.data() + text.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace taper
