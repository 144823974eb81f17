// Line and dot charts as inline SVG, without scripts. Colours are CSS classes (s0 ... s7, ref), so
// that a page styles them for light and dark.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/curve.h"

namespace taper {

inline constexpr int kNumColors = 8;

enum class Stroke { kSolid, kThin, kDashed, kNone };
enum class Marker { kNone, kDot, kHollowDot, kSquare, kDiamond };

struct Series {
  int color = 0;  // modulo kNumColors
  Stroke stroke = Stroke::kSolid;
  Marker marker = Marker::kNone;
  std::vector<Point> points;
};

// A horizontal line with a label, such as the anchor's target.
struct Reference {
  double y = 0;
  std::string label;
  int color = -1;  // -1: neutral
};

struct ChartSpec {
  std::string id;     // unique on the page; an XML name
  std::string title;  // for screen readers
  std::string x_label, y_label;
  std::vector<Series> series;
  std::vector<Reference> references;

  // Areas between 0 and the curve on a second axis from 0 to 1, drawn behind.
  std::vector<std::vector<Point>> areas;
  std::string area_label;

  std::optional<double> y_low, y_high;  // what lies outside is cut off; default: the data
  std::optional<double> x_low, x_high;
  std::vector<Point> x_ticks;  // x and its label (title); default: round values
  bool y_from_zero = false;
  bool y_log_when_wide = false;  // a logarithmic axis where the data spans more than 30-fold
};

struct ChartSize {
  int width = 0, height = 0;
};

// Width and height are SVG units, pixels when shown at full size. `css_class` goes on the <svg>.
std::string render_chart(const ChartSpec& spec, ChartSize size, const std::string& css_class);

// A small picture of a series for a legend.
std::string render_swatch(int color, Stroke stroke, Marker marker);
std::string render_area_swatch();

}  // namespace taper
