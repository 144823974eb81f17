// The loss of all runs with the gate behind, and the gap of each run to the first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/figure.h"
#include "report/format.h"
#include "report/sections.h"

namespace taper {
namespace {

// The share of the steps whose training loss may be cut off at the top, and what that must win.
constexpr double kCutShare = 0.04;
constexpr double kCutGain = 0.25;

bool has_gate(const Run& run) {
  return std::any_of(
      run.metrics.train.begin(), run.metrics.train.end(),
      [](const TrainRow& row) { return row.gate < 1; });
}

std::vector<Point> gate_curve(const Run& run) {
  std::vector<Point> points;
  for (const TrainRow& row : run.metrics.train)
    points.push_back({static_cast<double>(row.step), row.gate});
  return thinned(points, 200);
}

std::vector<Point> train_curve(const Run& run) {
  std::vector<Point> points;
  for (const TrainRow& row : run.metrics.train)
    points.push_back({static_cast<double>(row.step), row.loss});
  return smoothed(points, std::max(3.0, static_cast<double>(points.size()) / 60));
}

std::string loss_title(const Run& run, int64_t step, double loss, double gate) {
  std::string title =
      fmt::format("{}, step {}: {} nats", run.name, format_count(step), format_fixed(loss, 4));
  if (!std::isnan(gate)) title += fmt::format(" at g = {}", format_significant(gate, 3));
  return title;
}

std::vector<Point> valid_curve(const Run& run) {
  std::vector<Point> points;
  for (const ValidRow& row : run.metrics.valid) {
    points.push_back(
        {static_cast<double>(row.step), row.loss, loss_title(run, row.step, row.loss, row.gate)});
  }
  return points;
}

// The loss at g = 0 while the gate is open; once it is shut the two losses are one.
std::vector<Point> valid_g0_curve(const Run& run) {
  std::vector<Point> points;
  for (const ValidRow& row : run.metrics.valid) {
    if (std::isnan(row.loss_g0)) continue;
    points.push_back(
        {static_cast<double>(row.step), row.loss_g0, loss_title(run, row.step, row.loss_g0, 0)});
    if (row.gate == 0) break;
  }
  return points;
}

// A top of the loss axis that leaves out the first steep steps where they would flatten all the
// rest.
std::optional<double> loss_cut(const std::vector<Run>& runs) {
  double low = INFINITY, high = -INFINITY, cut = -INFINITY;
  for (const Run& run : runs) {
    const std::vector<Point> curve = train_curve(run);
    for (size_t i = 0; i < curve.size(); ++i) {
      if (!std::isfinite(curve[i].y)) continue;
      low = std::min(low, curve[i].y);
      high = std::max(high, curve[i].y);
      const bool early = static_cast<double>(i) < kCutShare * static_cast<double>(curve.size());
      if (!early) cut = std::max(cut, curve[i].y);
    }
    for (const Point& point : valid_curve(run)) low = std::min(low, point.y);
  }
  const bool gains = high - cut > kCutGain * (high - low);
  if (!gains || !std::isfinite(cut)) return std::nullopt;
  return cut;
}

std::vector<LegendEntry> loss_legend(const std::vector<Run>& runs) {
  std::vector<LegendEntry> legend = run_legend(runs);
  legend.push_back({render_swatch(-1, Stroke::kThin, Marker::kNone), "training, smoothed"});
  legend.push_back({render_swatch(-1, Stroke::kSolid, Marker::kDot), "validation"});
  if (std::any_of(runs.begin(), runs.end(), has_gate)) {
    legend.push_back(
        {render_swatch(-1, Stroke::kDashed, Marker::kHollowDot), "validation at g = 0"});
    legend.push_back({render_area_swatch(), "gate g (right axis)"});
  }
  return legend;
}

void add_gates(const std::vector<Run>& runs, ChartSpec& spec) {
  std::vector<std::vector<double>> seen;
  for (const Run& run : runs) {
    if (!has_gate(run)) continue;
    const std::vector<Point> gate = gate_curve(run);
    std::vector<double> values;
    for (const Point& point : gate) {
      values.push_back(point.x);
      values.push_back(point.y);
    }
    if (std::find(seen.begin(), seen.end(), values) != seen.end()) continue;
    seen.push_back(values);
    spec.areas.push_back(gate);
  }
  if (!spec.areas.empty()) spec.area_label = "gate";
}

std::map<int64_t, double> losses_by_step(const Run& run) {
  std::map<int64_t, double> losses;
  for (const ValidRow& row : run.metrics.valid) losses[row.step] = row.loss;
  return losses;
}

struct Gap {
  std::vector<Point> current, at_zero;
};

Gap gap_curves(const Run& run, const Run& reference,
               const std::map<int64_t, double>& reference_losses) {
  Gap gap;
  bool shut = false;  // from then on the loss at g = 0 is the loss
  for (const ValidRow& row : run.metrics.valid) {
    const auto found = reference_losses.find(row.step);
    if (found == reference_losses.end()) continue;
    const auto point = [&](double loss, double gate) {
      const double percent = 100 * (loss / found->second - 1);
      return Point{
          static_cast<double>(row.step), percent,
          fmt::format("{} at g = {}, step {}: {} against {}", run.name, format_significant(gate, 3),
                      format_count(row.step), format_percent(percent), reference.name)};
    };
    gap.current.push_back(point(row.loss, row.gate));
    if (!std::isnan(row.loss_g0) && !shut) gap.at_zero.push_back(point(row.loss_g0, 0));
    shut = row.gate == 0;
  }
  return gap;
}

// An axis for the second half of the curves, where the runs are comparable; the rest is cut.
void set_gap_axis(ChartSpec& spec) {
  double last = 0, low = 0, high = 0;
  for (const Series& series : spec.series)
    for (const Point& point : series.points) last = std::max(last, point.x);
  for (const Series& series : spec.series) {
    for (const Point& point : series.points) {
      if (point.x < last / 2 || !std::isfinite(point.y)) continue;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  const double room = std::max(0.25 * (high - low), 0.1);
  spec.y_low = low - room;
  spec.y_high = high + room;
}

}  // namespace

std::string loss_section(const std::vector<Run>& runs) {
  ChartSpec spec;
  spec.id = "loss";
  spec.title = "Loss over the steps of all runs";
  spec.x_label = "optimizer step";
  spec.x_low = 0;
  spec.y_label = "loss, nats per token";
  for (size_t i = 0; i < runs.size(); ++i) {
    const int color = static_cast<int>(i);
    spec.series.push_back({color, Stroke::kThin, Marker::kNone, thinned(train_curve(runs[i]))});
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    const int color = static_cast<int>(i);
    if (has_gate(runs[i])) {
      spec.series.push_back(
          {color, Stroke::kDashed, Marker::kHollowDot, thinned(valid_g0_curve(runs[i]), 100)});
    }
    spec.series.push_back(
        {color, Stroke::kSolid, Marker::kDot, thinned(valid_curve(runs[i]), 100)});
  }
  add_gates(runs, spec);
  std::string note;
  if (const std::optional<double> cut = loss_cut(runs)) {
    spec.y_high = *cut;
    double low = INFINITY;
    for (const Series& series : spec.series)
      for (const Point& point : series.points) low = std::min(low, point.y);
    spec.y_low = low;
    note = " The steep first steps are cut off at the top.";
  }
  return "<section><h2>Loss</h2><p>Cross-entropy on the training batches and on held-out text. "
         "While the gate g falls from 1 to 0, each tapered norm turns from a norm into a fixed "
         "scale; the model is judged at g = 0." +
         note + "</p>\n" + wide_figure(spec, loss_legend(runs)) + "</section>\n";
}

std::string gap_section(const std::vector<Run>& runs) {
  if (runs.size() < 2) return "";
  const Run& reference = runs.front();
  const std::map<int64_t, double> reference_losses = losses_by_step(reference);
  ChartSpec spec;
  spec.id = "gap";
  spec.title = "Gap in validation loss to " + reference.name;
  spec.x_label = "optimizer step";
  spec.x_low = 0;
  spec.y_label = "gap, %";
  bool any_dashed = false;
  std::vector<LegendEntry> legend = run_legend(runs);
  legend.erase(legend.begin());
  for (size_t i = 1; i < runs.size(); ++i) {
    const int color = static_cast<int>(i);
    const Gap gap = gap_curves(runs[i], reference, reference_losses);
    if (gap.current.size() < 2) continue;
    if (has_gate(runs[i])) {
      any_dashed = true;
      spec.series.push_back(
          {color, Stroke::kDashed, Marker::kHollowDot, thinned(gap.at_zero, 100)});
    }
    spec.series.push_back({color, Stroke::kSolid, Marker::kDot, thinned(gap.current, 100)});
  }
  if (spec.series.empty()) return "";
  add_gates(runs, spec);
  set_gap_axis(spec);
  spec.references.push_back({0, reference.name, -1});
  legend.push_back({render_swatch(-1, Stroke::kSolid, Marker::kDot), "at the current gate"});
  if (any_dashed) {
    legend.push_back({render_swatch(-1, Stroke::kDashed, Marker::kHollowDot), "at g = 0"});
    legend.push_back({render_area_swatch(), "gate g (right axis)"});
  }
  return fmt::format(
      "<section><h2>Gap to {}</h2><p>Validation loss relative to <b>{}</b> at the same step; below "
      "zero is better. The axis fits the second half of the training.</p>\n{}</section>\n",
      html_escape(reference.name), html_escape(reference.name), wide_figure(spec, legend));
}

}  // namespace taper
