// metrics.jsonl of a training run: one JSON object a line, its "kind" naming what the row holds.
//
//   train        one optimizer step
//   valid        the held-out loss, at the current gate and at g = 0
//   calibration  c of every tapered norm
//   end          the run's last figures
//
// A row that steps back (a run resumed from an earlier checkpoint) replaces the rows after it. Rows
// of an unknown kind are skipped. A torn last line, the mark of a killed process, is dropped; any
// other line that cannot be read is a FormatError naming file and line. Figures absent or null (a
// skipped step) are NaN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace taper {

inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

struct TrainRow {
  int64_t step = 0;
  double loss = kAbsent;         // cross-entropy, nats per token
  double anchor_loss = kAbsent;  // L_aux, lambda included
  double gate = kAbsent;
  double learning_rate = kAbsent;
  double grad_norm = kAbsent;
  double logit_norm = kAbsent;   // mean L2 norm of a token's logits
  double final_scale = kAbsent;  // mean s(h) at the final norm's input
  double tokens_per_s = kAbsent;
  double tokens = kAbsent;   // since the start
  double seconds = kAbsent;  // since the start
};

struct ValidRow {
  int64_t step = 0;
  double loss = kAbsent;  // at `gate`
  double gate = kAbsent;
  double loss_g0 = kAbsent;  // absent before calibration and where nothing tapers
};

struct NormScale {
  std::string name;
  double c = kAbsent;
};

struct CalibrationRow {
  int64_t step = 0;
  std::vector<NormScale> norms;
  double s_tgt = kAbsent;
};

struct EndRow {
  int64_t step = 0;
  double train_loss = kAbsent;
  double valid_loss = kAbsent;
  double tokens_per_s = kAbsent;
  double seconds = kAbsent;
};

struct Metrics {
  std::vector<TrainRow> train;
  std::vector<ValidRow> valid;
  std::optional<CalibrationRow> calibration;
  std::optional<EndRow> end;
};

Metrics parse_metrics(std::string_view text, const std::string& what);
Metrics read_metrics(const std::filesystem::path& path);

}  // namespace taper
