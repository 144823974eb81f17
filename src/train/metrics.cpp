#include "train/metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "core/error.h"
#include "core/file.h"

namespace taper {

namespace {

// The rows of `text` up to `last_step`. A line that is no JSON ends them: only a kill leaves one.
std::string rows_up_to(const std::string& text, int64_t last_step) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) break;
    if (row.value("step", int64_t{0}) <= last_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step) : path_(path) {
  if (std::filesystem::exists(path))
    write_file_atomically(path, rows_up_to(read_file(path), last_step));
  file_ = std::fopen(path.c_str(), "ab");
  if (!file_)
    throw ResourceError(fmt::format("{}: cannot write: {}", path.string(), std::strerror(errno)),
                        "choose another folder with --out");
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

void MetricsFile::append(const Json& row) {
  const std::string line = row.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0)
    throw ResourceError(fmt::format("{}: cannot write: {}", path_.string(), std::strerror(errno)),
                        "free some disk space and go on with --resume");
}

}  // namespace taper
