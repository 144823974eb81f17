#include "report/metrics.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace taper {
namespace {

double number(const Json& row, const char* key, const std::string& where) {
  return json_value<double>(row, key, kAbsent, where);
}

TrainRow train_row(const Json& row, int64_t step, const std::string& where) {
  return {.step = step,
          .loss = number(row, "loss", where),
          .anchor_loss = number(row, "anchor_loss", where),
          .gate = number(row, "gate", where),
          .learning_rate = number(row, "lr", where),
          .grad_norm = number(row, "grad_norm", where),
          .logit_norm = number(row, "logit_norm", where),
          .final_scale = number(row, "final_scale", where),
          .tokens_per_s = number(row, "tokens_per_s", where),
          .tokens = number(row, "tokens", where),
          .seconds = number(row, "seconds", where)};
}

ValidRow valid_row(const Json& row, int64_t step, const std::string& where) {
  return {.step = step,
          .loss = number(row, "loss", where),
          .gate = number(row, "gate", where),
          .loss_g0 = number(row, "loss_g0", where)};
}

CalibrationRow calibration_row(const Json& row, int64_t step, const std::string& where) {
  CalibrationRow calibration{.step = step, .norms = {}, .s_tgt = number(row, "s_tgt", where)};
  const Json norms = json_at<Json>(row, "norms", where);
  if (!norms.is_array()) throw FormatError(where + ": norms is not an array");
  for (const Json& norm : norms) {
    calibration.norms.push_back(
        {json_at<std::string>(norm, "name", where), json_at<double>(norm, "c", where)});
  }
  return calibration;
}

EndRow end_row(const Json& row, int64_t step, const std::string& where) {
  return {.step = step,
          .train_loss = number(row, "train_loss", where),
          .valid_loss = number(row, "valid_loss", where),
          .tokens_per_s = number(row, "tokens_per_s", where),
          .seconds = number(row, "seconds", where)};
}

// Drops the rows that a resumed run wrote again.
template <typename Row>
void drop_from(std::vector<Row>& rows, int64_t step) {
  while (!rows.empty() && rows.back().step >= step) rows.pop_back();
}

template <typename Row>
void drop_from(std::optional<Row>& row, int64_t step) {
  if (row && row->step >= step) row.reset();
}

void add_row(Metrics& metrics, const Json& row, const std::string& where) {
  if (!row.is_object()) throw FormatError(where + ": expected a JSON object");
  const auto kind = json_at<std::string>(row, "kind", where);
  if (kind == "train") {
    const auto step = json_at<int64_t>(row, "step", where);
    if (!metrics.train.empty() && metrics.train.back().step >= step) {
      drop_from(metrics.train, step);
      drop_from(metrics.valid, step);
      drop_from(metrics.calibration, step);
    }
    drop_from(metrics.end, step);
    metrics.train.push_back(train_row(row, step, where));
  } else if (kind == "valid") {
    const auto step = json_at<int64_t>(row, "step", where);
    drop_from(metrics.valid, step);
    metrics.valid.push_back(valid_row(row, step, where));
  } else if (kind == "calibration") {
    metrics.calibration = calibration_row(row, json_at<int64_t>(row, "step", where), where);
  } else if (kind == "end") {
    metrics.end = end_row(row, json_at<int64_t>(row, "step", where), where);
  }
}

}  // namespace

Metrics parse_metrics(std::string_view text, const std::string& what) {
  Metrics metrics;
  int64_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t newline = text.find('\n');
    const bool torn = newline == std::string_view::npos;
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(torn ? text.size() : newline + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (torn && !Json::accept(line)) break;
    const std::string where = fmt::format("{}:{}", what, line_number);
    add_row(metrics, parse_json(line, where), where);
  }
  return metrics;
}

Metrics read_metrics(const std::filesystem::path& path) {
  return parse_metrics(read_file(path), path.string());
}

}  // namespace taper
