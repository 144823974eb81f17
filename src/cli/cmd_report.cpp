// taper report: training runs as one HTML page, and the demo's figures on top of it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "report/format.h"
#include "report/page.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<fs::path> runs;
  fs::path out;
  fs::path summary;
  fs::path results;
  double seconds = 0;
  std::string title = "taper report";
  bool json = false;
};

// With --results the summary is gathered and written first; then, or when it exists, it is read.
std::optional<Summary> load_summary(const Options& options) {
  if (options.summary.empty()) {
    if (options.results.empty()) return std::nullopt;
    throw ConfigError("--results needs --summary FILE, the file to write");
  }
  if (options.results.empty()) {
    const std::string name = options.summary.string();
    return summary_from_json(parse_json(read_file(options.summary), name), name);
  }
  const Summary summary = gather_summary(options.results, options.seconds);
  const auto replace =
      Json::error_handler_t::replace;  // a model may write bytes that are not UTF-8
  write_file_atomically(options.summary, to_json(summary).dump(2, ' ', false, replace) + "\n");
  return summary;
}

Json run_json(const Run& run, const Run& reference) {
  return {{"name", run.name},
          {"finished", run.finished},
          {"step", run.steps},
          {"train_loss", run.train_loss},
          {"valid_loss", run.judged_loss()},
          {"gap_percent", 100 * (run.judged_loss() / reference.judged_loss() - 1)},
          {"tokens_per_s", run.tokens_per_s},
          {"seconds", run.seconds}};
}

std::string runs_text(const std::vector<Run>& runs) {
  size_t width = 3;
  for (const Run& run : runs) width = std::max(width, run.name.size());
  std::string out = fmt::format("{:<{}}{:>12}{:>12}{:>11}{:>10}\n", "run", width, "train loss",
                                "valid loss", "gap", "steps");
  for (const Run& run : runs) {
    const double gap = 100 * (run.judged_loss() / runs.front().judged_loss() - 1);
    out += fmt::format("{:<{}}{:>12}{:>12}{:>11}{:>10}{}\n", run.name, width,
                       format_fixed(run.train_loss, 4), format_fixed(run.judged_loss(), 4),
                       format_percent(gap), format_count(run.steps),
                       run.finished ? "" : "  unfinished");
  }
  return out;
}

void run_report(const Options& options) {
  const std::vector<Run> runs = load_runs(options.runs);
  const std::optional<Summary> summary = load_summary(options);
  write_file_atomically(options.out, render_page(options.title, runs, summary));
  if (options.json) {
    Json result = {{"out", options.out.string()}, {"runs", Json::array()}};
    for (const Run& run : runs) result["runs"].push_back(run_json(run, runs.front()));
    if (summary) result["summary"] = to_json(*summary);
    print_json(result);
    return;
  }
  print_text(summary ? to_text(*summary) : runs_text(runs));
  log_info("wrote {}", options.out.string());
}

}  // namespace

void setup_report(CLI::App& parent) {
  auto options = std::make_shared<Options>();
  CLI::App& app = add_command(parent, kInspect, "report", "show training runs as one HTML page");
  app.add_option("RUN", options->runs,
                 "run folders; the first is what the others are compared with")
      ->type_name(kFolder)
      ->required();
  app.add_option("--out", options->out, "HTML file to write")->type_name(kFile)->required();
  app.add_option("--title", options->title, "heading of the page");
  app.add_option("--summary", options->summary, "summary.json to show on top")->type_name(kFile);
  app.add_option("--results", options->results,
                 "write the summary first, from this folder of --json outputs (tools/demo.sh)")
      ->type_name(kFolder);
  app.add_option("--seconds", options->seconds, "time that the summary states, in seconds");
  add_json(app, options->json);
  add_quiet(app);
  app.footer("Examples:\n  taper report runs/baseline runs/taper --out report.html");
  app.callback([options] { run_report(*options); });
}

}  // namespace taper
