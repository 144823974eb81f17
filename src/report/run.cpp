#include "report/run.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/file.h"
#include "model/checkpoint.h"

namespace taper {
namespace fs = std::filesystem;
namespace {

void read_checkpoint(Run& run) {
  const Checkpoint checkpoint = Checkpoint::open(run.path);
  run.num_parameters = Architecture(checkpoint.config()).num_parameters();
  const TaperState& state = checkpoint.taper();
  run.scope = std::string(to_string(state.scope));
  if (state.anchor) run.scope += " + anchor";
  if (std::isnan(run.s_tgt) && state.anchor_target) run.s_tgt = *state.anchor_target;
  if (!run.scales.empty()) return;
  for (const NormSite& site : norm_sites(checkpoint.config()))
    if (const TensorView* scale = checkpoint.tensors().find(site.taper_scale()))
      run.scales.push_back({site.name, to_float32(*scale).at(0)});
}

void set_final_figures(Run& run) {
  const Metrics& metrics = run.metrics;
  if (!metrics.train.empty()) {
    const TrainRow& last = metrics.train.back();
    run.steps = last.step;
    run.train_loss = last.loss;
    run.tokens = last.tokens;
    run.tokens_per_s = last.tokens_per_s;
    run.seconds = last.seconds;
  }
  if (!metrics.valid.empty()) {
    const ValidRow& last = metrics.valid.back();
    run.valid_loss = last.loss;
    run.valid_loss_g0 = last.loss_g0;
    run.valid_gate = last.gate;
  }
  if (metrics.end) {
    const EndRow& end = *metrics.end;
    run.finished = true;
    run.steps = end.step;
    run.train_loss = end.train_loss;
    run.tokens_per_s = end.tokens_per_s;
    run.seconds = end.seconds;
    if (metrics.valid.empty()) run.valid_loss = end.valid_loss;
  }
}

fs::path without_trailing_slash(const fs::path& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

}  // namespace

Run load_run(const fs::path& path) {
  const fs::path log = path / "metrics.jsonl";
  if (!fs::exists(log)) {
    throw FormatError(path.string() + ": not a run folder, metrics.jsonl is missing",
                      "name a folder that `taper train --out` wrote");
  }
  Run run;
  run.path = path;
  run.name = without_trailing_slash(path).filename().string();
  run.metrics = read_metrics(log);
  if (run.metrics.train.empty() && run.metrics.valid.empty())
    throw FormatError(log.string() + ": no training steps yet", "let the run log a step first");
  if (fs::exists(path / "config.toml")) run.config_toml = read_file(path / "config.toml");
  if (run.metrics.calibration) {
    run.scales = run.metrics.calibration->norms;
    run.s_tgt = run.metrics.calibration->s_tgt;
  }
  if (fs::exists(path / "checkpoints" / "latest")) read_checkpoint(run);
  set_final_figures(run);
  return run;
}

std::vector<Run> load_runs(const std::vector<fs::path>& paths) {
  std::vector<Run> runs;
  std::map<std::string, int> uses;
  for (const fs::path& path : paths) {
    runs.push_back(load_run(path));
    ++uses[runs.back().name];
  }
  for (Run& run : runs) {
    if (uses[run.name] < 2) continue;
    const fs::path full = without_trailing_slash(run.path);
    run.name = (full.parent_path().filename() / full.filename()).string();
  }
  return runs;
}

}  // namespace taper
