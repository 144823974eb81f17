#include "train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

namespace taper {

namespace {

namespace fs = std::filesystem;

std::optional<int64_t> step_of(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw ResourceError(
        fmt::format("{}: cannot make the folder: {}", path.string(), error.message()),
        "choose another folder with --out");
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& path) : path_(path) {
  make_folder(path_ / "checkpoints");
  const fs::path lock_path = path_ / ".lock";
  lock_ = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0)
    throw ResourceError(
        fmt::format("{}: cannot write here: {}", path_.string(), std::strerror(errno)),
        "choose another folder with --out");
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw ResourceError(fmt::format("{}: another process is training here", path_.string()),
                        "wait for it to end, or choose another folder with --out");
  }
  for (const auto& folder : {path_, path_ / "checkpoints"}) remove_stale_temporaries(folder);
}

RunDirectory::~RunDirectory() { ::close(lock_); }

fs::path RunDirectory::checkpoint_path(int64_t step) const {
  return path_ / "checkpoints" / fmt::format("step-{}", step);
}

std::optional<int64_t> RunDirectory::read_pointer(const char* name) const {
  const fs::path path = path_ / "checkpoints" / name;
  if (!fs::exists(path)) return std::nullopt;
  std::string text = read_file(path, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto step = step_of(text);
  if (!step)
    throw FormatError(fmt::format("{}: holds \"{}\", expected step-N", path.string(), text),
                      "write the name of a complete checkpoint folder into it");
  return step;
}

std::optional<int64_t> RunDirectory::latest() const { return read_pointer("latest"); }
std::optional<int64_t> RunDirectory::best() const { return read_pointer("best"); }

void RunDirectory::set_latest(int64_t step) {
  write_file_atomically(path_ / "checkpoints" / "latest", fmt::format("step-{}\n", step));
}

void RunDirectory::set_best(int64_t step) {
  write_file_atomically(path_ / "checkpoints" / "best", fmt::format("step-{}\n", step));
}

std::vector<int64_t> RunDirectory::steps() const {
  std::vector<int64_t> found;
  for (const auto& entry : fs::directory_iterator(path_ / "checkpoints"))
    if (entry.is_directory())
      if (const auto step = step_of(entry.path().filename().string())) found.push_back(*step);
  std::sort(found.rbegin(), found.rend());
  return found;
}

void RunDirectory::prune(int64_t keep) {
  const auto newest = steps();
  const auto last = latest(), good = best();
  for (size_t i = static_cast<size_t>(keep); i < newest.size(); ++i) {
    if (newest[i] == last || newest[i] == good) continue;
    // Renamed first, so that a kill in the middle leaves a temporary, not half a checkpoint.
    const fs::path doomed =
        path_ / "checkpoints" / fmt::format("pruned.tmp-{}-{}", ::getpid(), newest[i]);
    fs::rename(checkpoint_path(newest[i]), doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace taper
