// The residual stream, the calibrated scales and the optimizer, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "report/figure.h"
#include "report/format.h"
#include "report/sections.h"

namespace taper {
namespace {

using Figure = std::function<double(const TrainRow&)>;

struct Trace {
  const char* id;
  const char* title;
  const char* y_label;
  Figure figure;
  bool noisy = true;  // shown smoothed, over the values as they are
};

constexpr int kSmallPoints = 300;  // enough for a chart of half the width

// One curve a run; empty when no run logged the figure.
ChartSpec trace_chart(const std::vector<Run>& runs, const Trace& trace) {
  ChartSpec spec;
  spec.id = trace.id;
  spec.title = trace.title;
  spec.x_label = "optimizer step";
  spec.y_label = trace.y_label;
  spec.x_low = 0;
  spec.y_log_when_wide = trace.noisy;
  spec.y_from_zero = true;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int color = static_cast<int>(i);
    std::vector<Point> points;
    bool any = false;
    for (const TrainRow& row : runs[i].metrics.train) {
      const double value = trace.figure(row);
      any |= std::isfinite(value) && value != 0;
      points.push_back({static_cast<double>(row.step), value});
    }
    if (!any) continue;
    spec.series.push_back({color, trace.noisy ? Stroke::kThin : Stroke::kSolid, Marker::kNone,
                           thinned(points, kSmallPoints)});
    if (!trace.noisy) continue;
    points = smoothed(points, std::max(2.0, static_cast<double>(points.size()) / 60));
    spec.series.push_back({color, Stroke::kSolid, Marker::kNone, thinned(points, kSmallPoints)});
  }
  return spec;
}

std::string figure_grid(const std::vector<Run>& runs, const std::vector<ChartSpec>& charts) {
  std::string out;
  for (const ChartSpec& chart : charts)
    if (!chart.series.empty()) out += small_figure(chart);
  if (out.empty()) return "";
  return render_legend(run_legend(runs)) + "<div class=\"grid\">" + out + "</div>";
}

// "model.layers.3.input_layernorm" -> 3; -1 when there is no layer number.
int layer_of(const std::string& norm) {
  const size_t at = norm.find("layers.");
  return at == std::string::npos ? -1 : std::atoi(norm.c_str() + at + 7);
}

Marker norm_marker(const std::string& norm) {
  if (layer_of(norm) < 0) return Marker::kDiamond;
  return norm.find("post_attention") != std::string::npos ? Marker::kSquare : Marker::kDot;
}

// The x of each norm: two a layer, in execution order, the final norm last.
double norm_position(const std::string& norm, int num_layers) {
  const int layer = layer_of(norm);
  if (layer < 0) return num_layers;
  return layer + (norm_marker(norm) == Marker::kSquare ? 0.5 : 0.0);
}

int layers_of(const std::vector<Run>& runs) {
  int layers = 0;
  for (const Run& run : runs)
    for (const NormScale& norm : run.scales) layers = std::max(layers, layer_of(norm.name) + 1);
  return layers;
}

void add_scales(const Run& run, int color, int num_layers, ChartSpec& spec) {
  Series line{color, Stroke::kThin, Marker::kNone, {}};
  std::vector<Series> dots;
  for (const Marker marker : {Marker::kDot, Marker::kSquare, Marker::kDiamond})
    dots.push_back({color, Stroke::kNone, marker, {}});
  for (const NormScale& norm : run.scales) {
    const Point point{
        norm_position(norm.name, num_layers), norm.c,
        fmt::format("{}, {}: c = {}", run.name, norm.name, format_significant(norm.c, 5))};
    line.points.push_back(point);
    for (Series& series : dots)
      if (series.marker == norm_marker(norm.name)) series.points.push_back(point);
  }
  spec.series.push_back(line);
  for (Series& series : dots)
    if (!series.points.empty()) spec.series.push_back(series);
}

std::string scales_table(const std::vector<Run>& runs) {
  std::string out =
      "<details><summary>All scales</summary><div class=\"scroll\"><table><thead><tr>"
      "<th>run</th><th>norm</th><th class=\"n\">c</th><th class=\"n\">1 / c</th>"
      "</tr></thead><tbody>";
  for (const Run& run : runs) {
    for (const NormScale& norm : run.scales) {
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
          html_escape(run.name), html_escape(norm.name), format_significant(norm.c, 5),
          format_significant(1 / norm.c, 5));
    }
  }
  return out + "</tbody></table></div></details>\n";
}

}  // namespace

std::string stream_section(const std::vector<Run>& runs) {
  ChartSpec scale = trace_chart(runs, {"scale", "Token scale at the final norm", "mean s(h)",
                                       [](const TrainRow& row) { return row.final_scale; }});
  // Targets that differ by less than a line's width would write over each other: one label a value.
  for (size_t i = 0; i < runs.size(); ++i) {
    if (std::isnan(runs[i].s_tgt)) continue;
    const bool near = std::any_of(
        scale.references.begin(), scale.references.end(),
        [&](const Reference& other) { return std::abs(other.y / runs[i].s_tgt - 1) < 0.1; });
    const std::string label =
        near ? "" : fmt::format("anchor {}", format_significant(runs[i].s_tgt, 3));
    scale.references.push_back({runs[i].s_tgt, label, static_cast<int>(i)});
  }
  const ChartSpec logits =
      trace_chart(runs, {"logits", "Logit norm", "mean L2 norm of a token's logits",
                         [](const TrainRow& row) { return row.logit_norm; }});
  const std::string grid = figure_grid(runs, {logits, scale});
  if (grid.empty()) return "";
  return "<section><h2>Logits and residual stream</h2><p>Without a final norm nothing holds the "
         "residual stream's length, and cross-entropy alone makes it grow; the anchor holds it at "
         "the scale it had when the taper began.</p>\n" +
         grid + "</section>\n";
}

std::string calibration_section(const std::vector<Run>& runs) {
  const int num_layers = layers_of(runs);
  ChartSpec spec;
  spec.id = "calibration";
  spec.title = "Calibrated scale of each tapered norm";
  spec.x_label = "layer";
  spec.y_label = "scale c";
  spec.y_from_zero = true;
  spec.y_log_when_wide = true;
  bool has_final = false;
  std::vector<LegendEntry> legend;
  const std::vector<LegendEntry> names = run_legend(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].scales.empty()) continue;
    legend.push_back(names[i]);
    add_scales(runs[i], static_cast<int>(i), num_layers, spec);
    for (const NormScale& norm : runs[i].scales) has_final |= layer_of(norm.name) < 0;
  }
  if (spec.series.empty()) return "";
  const int every = 1 + num_layers / 17;
  for (int layer = 0; layer < num_layers; layer += every)
    spec.x_ticks.push_back({static_cast<double>(layer), 0, std::to_string(layer)});
  if (has_final) spec.x_ticks.push_back({static_cast<double>(num_layers), 0, "final"});
  spec.x_low = -0.25;
  spec.x_high = has_final ? num_layers + 0.25 : num_layers - 0.25;
  legend.push_back({render_swatch(-1, Stroke::kNone, Marker::kDot), "attention norm"});
  legend.push_back({render_swatch(-1, Stroke::kNone, Marker::kSquare), "feed-forward norm"});
  if (has_final)
    legend.push_back({render_swatch(-1, Stroke::kNone, Marker::kDiamond), "final norm"});
  return "<section><h2>Calibration</h2><p>The frozen number c that stands in for 1/r in each "
         "tapered "
         "norm: the least-squares fit of c&#8201;h&#8201;&#947; to the norm's own output, gathered "
         "while g = 1.</p>\n" +
         wide_figure(spec, legend) + scales_table(runs) + "</section>\n";
}

std::string optimisation_section(const std::vector<Run>& runs) {
  const std::vector<ChartSpec> charts = {
      trace_chart(runs, {"lr", "Learning rate", "per step",
                         [](const TrainRow& row) { return row.learning_rate; }, false}),
      trace_chart(runs, {"grad", "Gradient norm", "L2, before clipping",
                         [](const TrainRow& row) { return row.grad_norm; }}),
      trace_chart(runs, {"anchor", "Anchor loss", "nats",
                         [](const TrainRow& row) { return row.anchor_loss; }}),
      trace_chart(runs, {"speed", "Training speed", "tokens/s",
                         [](const TrainRow& row) { return row.tokens_per_s; }})};
  const std::string grid = figure_grid(runs, charts);
  if (grid.empty()) return "";
  return "<section><h2>Optimisation</h2>\n" + grid + "</section>\n";
}

}  // namespace taper
