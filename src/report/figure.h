// A chart with its heading, legend and caption, in the sizes a page needs.
#pragma once

#include <string>
#include <vector>

#include "report/chart.h"
#include "report/run.h"

namespace taper {

struct LegendEntry {
  std::string swatch;  // SVG
  std::string label;   // plain text
};

// One entry a run, in its colour.
std::vector<LegendEntry> run_legend(const std::vector<Run>& runs);
std::string render_legend(const std::vector<LegendEntry>& entries);

// Full width: drawn twice, for wide windows and for phones; the style sheet shows one of them.
std::string wide_figure(const ChartSpec& spec, const std::vector<LegendEntry>& legend);
// Half width, one of a grid.
std::string small_figure(const ChartSpec& spec);

}  // namespace taper
