// A training run as the report sees it: its folder's metrics.jsonl, config.toml and latest
// checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/norm_sites.h"
#include "report/metrics.h"

namespace taper {

struct Run {
  std::string name;  // the folder's name, made unique among the runs of a report
  std::filesystem::path path;
  std::string config_toml;  // empty when the folder has none
  Metrics metrics;

  // From the latest checkpoint; without one the scope is unknown (empty) and the rest is 0.
  std::string scope;  // "internal + anchor"
  int64_t num_parameters = 0;

  // The frozen scales in execution order, from the log, else from the checkpoint's tensors.
  std::vector<NormScale> scales;
  double s_tgt = kAbsent;

  // The final figures; NaN when the log lacks them.
  double train_loss = kAbsent;
  double valid_loss = kAbsent;     // at the last validation's gate
  double valid_loss_g0 = kAbsent;  // the same at g = 0
  double valid_gate = kAbsent;
  double tokens = kAbsent;
  double tokens_per_s = kAbsent;
  double seconds = kAbsent;
  int64_t steps = 0;
  bool finished = false;  // the log has its "end" row

  // What a model is judged by: the loss at g = 0 where it tapers, else the plain loss.
  double judged_loss() const { return valid_loss_g0 == valid_loss_g0 ? valid_loss_g0 : valid_loss; }
};

// FormatError when `path` is not a run folder (no metrics.jsonl), or for a damaged file in it.
Run load_run(const std::filesystem::path& path);

// Loads all and makes their names distinct ("a/x" and "b/x" rather than "x" twice).
std::vector<Run> load_runs(const std::vector<std::filesystem::path>& paths);

}  // namespace taper
