// A run directory: config.toml, metrics.jsonl, checkpoints/step-N/, and two text files in
// checkpoints/ that hold a folder's name: `latest` and `best`. One process at a time may train in
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace taper {

class RunDirectory {
 public:
  // Creates the folder where needed, takes its lock (ResourceError when another process holds it)
  // and removes the temporaries of writers that were killed.
  explicit RunDirectory(const std::filesystem::path& path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path metrics_path() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoint_path(int64_t step) const;
  std::optional<int64_t> latest() const;  // steps of the latest and the best complete checkpoint
  std::optional<int64_t> best() const;
  void set_latest(int64_t step);
  void set_best(int64_t step);
  // Removes all checkpoints but the `keep` newest, the latest and the best.
  void prune(int64_t keep);

 private:
  std::optional<int64_t> read_pointer(const char* name) const;
  std::vector<int64_t> steps() const;

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace taper
