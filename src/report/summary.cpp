#include "report/summary.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "report/format.h"

namespace taper {
namespace fs = std::filesystem;
namespace {

Json read_result(const fs::path& path) { return parse_json(read_file(path), path.string()); }

template <typename T>
T result(const fs::path& path, const char* key) {
  return json_at<T>(read_result(path), key, path.string());
}

double decode_speed(const Json& bench, const std::string& variant, const std::string& what) {
  const Json rows = json_at<Json>(bench, "rows", what);
  for (const Json& row : rows)
    if (json_at<std::string>(row, "variant", what) == variant)
      return json_at<double>(row, "tokens_per_s", what);
  throw FormatError(fmt::format("{}: no row of variant \"{}\"", what, variant));
}

std::string row(const char* label, const std::string& a, const std::string& b,
                const std::string& c) {
  return fmt::format("{:<28}{:>14}{:>14}{:>14}\n", label, a, b, c);
}

std::string speed(double tokens_per_s) { return format_significant(tokens_per_s, 4); }

}  // namespace

Json to_json(const Summary& summary) {
  return {{"baseline_loss", summary.baseline_loss},
          {"tapered_loss", summary.tapered_loss},
          {"folded_loss", summary.folded_loss},
          {"gap_percent", summary.gap_percent()},
          {"fold_max_abs_logit_diff", summary.fold_max_abs_logit_diff},
          {"parameters", summary.parameters},
          {"tokens_per_s",
           {{"baseline", summary.baseline_tokens_per_s},
            {"explicit_scale", summary.explicit_tokens_per_s},
            {"folded", summary.folded_tokens_per_s}}},
          {"seconds", summary.seconds},
          {"sample", summary.sample}};
}

Summary summary_from_json(const Json& json, const std::string& what) {
  const Json speeds = json_at<Json>(json, "tokens_per_s", what);
  Summary summary;
  summary.baseline_loss = json_at<double>(json, "baseline_loss", what);
  summary.tapered_loss = json_at<double>(json, "tapered_loss", what);
  summary.folded_loss = json_at<double>(json, "folded_loss", what);
  summary.fold_max_abs_logit_diff = json_at<double>(json, "fold_max_abs_logit_diff", what);
  summary.parameters = json_at<int64_t>(json, "parameters", what);
  summary.baseline_tokens_per_s = json_at<double>(speeds, "baseline", what);
  summary.explicit_tokens_per_s = json_at<double>(speeds, "explicit_scale", what);
  summary.folded_tokens_per_s = json_at<double>(speeds, "folded", what);
  summary.seconds = json_at<double>(json, "seconds", what);
  summary.sample = json_value<std::string>(json, "sample", "", what);
  return summary;
}

Summary gather_summary(const fs::path& results, double seconds) {
  Summary summary;
  summary.baseline_loss = result<double>(results / "eval-baseline.json", "loss");
  summary.tapered_loss = result<double>(results / "eval-tapered.json", "loss");
  summary.folded_loss = result<double>(results / "eval-folded.json", "loss");
  summary.fold_max_abs_logit_diff = result<double>(results / "fold.json", "max_abs_logit_diff");
  summary.parameters = result<int64_t>(results / "info.json", "parameters");
  const std::string bench_path = (results / "bench.json").string();
  const Json bench = read_result(bench_path);
  summary.baseline_tokens_per_s = decode_speed(bench, "baseline", bench_path);
  summary.explicit_tokens_per_s = decode_speed(bench, "explicit", bench_path);
  summary.folded_tokens_per_s = decode_speed(bench, "folded", bench_path);
  summary.sample = read_file(results / "sample.txt");
  while (summary.sample.ends_with('\n')) summary.sample.pop_back();
  summary.seconds = seconds;
  return summary;
}

std::string to_text(const Summary& s) {
  std::string out = row("", "baseline", "tapered g=0", "folded");
  out += row("validation loss (nats)", format_fixed(s.baseline_loss, 4),
             format_fixed(s.tapered_loss, 4), format_fixed(s.folded_loss, 4));
  out += row("gap to the baseline", "", format_percent(s.gap_percent()),
             format_percent(100 * (s.folded_loss / s.baseline_loss - 1)));
  out += row("decoding (tokens/s)", speed(s.baseline_tokens_per_s), speed(s.explicit_tokens_per_s),
             speed(s.folded_tokens_per_s));
  out += row("  against the baseline", "",
             fmt::format("{:.3f}x", s.explicit_tokens_per_s / s.baseline_tokens_per_s),
             fmt::format("{:.3f}x", s.folded_tokens_per_s / s.baseline_tokens_per_s));
  out += fmt::format("\nlargest logit difference of the fold: {}\n",
                     format_significant(s.fold_max_abs_logit_diff, 2));
  out += fmt::format("parameters: {}    time: {}\n", format_count(s.parameters),
                     format_duration(s.seconds));
  if (!s.sample.empty())
    out += fmt::format("\nthe folded model writes:\n{}\n", printable(s.sample));
  return out;
}

}  // namespace taper
