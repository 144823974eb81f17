#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/scale.h"

namespace taper {
namespace {

// Layout, in pixels at full size.
constexpr double kCharWidth = 6.9;  // a digit at the 12 px of the tick labels
constexpr int kTop = 28;            // room for the axis titles
constexpr int kBottom = 42;
constexpr double kWideRange = 30;  // from here on a logarithmic axis

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

struct Frame {
  Scale x, y, area;
  bool y_log = false;
  double left = 0, right = 0, top = 0, bottom = 0;
};

std::string color_class(int color) {
  return color < 0 ? "ref" : fmt::format("s{}", color % kNumColors);
}

bool drawable(const Point& point, const Frame& frame) {
  return std::isfinite(point.y) && (!frame.y_log || point.y > 0);
}

Range x_range(const ChartSpec& spec) {
  Range range;
  for (const Series& series : spec.series)
    for (const Point& point : series.points) range.add(point.x);
  if (spec.x_low) range.low = *spec.x_low;
  if (spec.x_high) range.high = *spec.x_high;
  if (range.empty()) range = {0, 1};
  return range;
}

Range y_range(const ChartSpec& spec, bool positive_only) {
  Range range;
  for (const Series& series : spec.series)
    for (const Point& point : series.points)
      if (!positive_only || point.y > 0) range.add(point.y);
  for (const Reference& reference : spec.references)
    if (!positive_only || reference.y > 0) range.add(reference.y);
  return range;
}

Scale y_scale(const ChartSpec& spec, int max_ticks, bool* is_log) {
  const Range positive = y_range(spec, true);
  const bool fixed = spec.y_low || spec.y_high;
  *is_log = spec.y_log_when_wide && !fixed && !positive.empty() &&
            positive.high > kWideRange * positive.low;
  if (*is_log) return Scale::logarithmic(positive.low, positive.high, std::max(max_ticks, 5));
  Range range = y_range(spec, false);
  if (range.empty()) range = {0, 1};
  if (spec.y_from_zero) range.add(0);
  if (spec.y_low) range.low = *spec.y_low;
  if (spec.y_high) range.high = *spec.y_high;
  if (spec.y_from_zero) return Scale::linear(range.low, range.high, max_ticks);
  const double room = 0.05 * (range.high - range.low);
  return Scale::linear(range.low - room, range.high + room, max_ticks, false);
}

size_t widest_label(const Scale& scale) {
  size_t widest = 1;
  for (const Tick& tick : scale.ticks()) widest = std::max(widest, tick.label.size());
  return widest;
}

Frame layout(const ChartSpec& spec, ChartSize size) {
  Frame frame;
  frame.top = kTop;
  frame.bottom = size.height - kBottom;
  frame.y = y_scale(spec, std::max(3, (size.height - kTop - kBottom) / 42), &frame.y_log);
  frame.left = 12 + kCharWidth * static_cast<double>(widest_label(frame.y));
  frame.right = size.width - (spec.areas.empty() ? 14.0 : 36.0);
  const Range x = x_range(spec);
  frame.x = Scale::linear(x.low, x.high, std::max(2, size.width / 90), false);
  frame.x.set_pixels(frame.left, frame.right);
  frame.y.set_pixels(frame.bottom, frame.top);
  frame.area = Scale::linear(0, 1, 4);
  frame.area.set_pixels(frame.bottom, frame.top);
  return frame;
}

std::string text(double x, double y, const char* css_class, const char* anchor,
                 const std::string& content) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                     css_class, x, y, anchor, html_escape(content));
}

std::string x_tick(const Frame& frame, double x, const std::string& label) {
  return fmt::format("<path class=\"tick\" d=\"M{0:.1f} {1:.1f}v5\"/>", x, frame.bottom) +
         text(x, frame.bottom + 18, "t", "middle", label);
}

std::string draw_axes(const ChartSpec& spec, const Frame& frame) {
  std::string out;
  for (const Tick& tick : frame.y.ticks()) {
    const double y = frame.y.pixel(tick.value);
    out += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", frame.left, y,
                       frame.right);
    out += text(frame.left - 7, y + 4, "t", "end", tick.label);
  }
  out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", frame.left, frame.bottom,
                     frame.right);
  if (spec.x_ticks.empty())
    for (const Tick& tick : frame.x.ticks())
      out += x_tick(frame, frame.x.pixel(tick.value), tick.label);
  for (const Point& tick : spec.x_ticks) out += x_tick(frame, frame.x.pixel(tick.x), tick.title);
  if (!spec.areas.empty()) {
    for (const Tick& tick : frame.area.ticks())
      out += text(frame.right + 7, frame.area.pixel(tick.value) + 4, "t", "start", tick.label);
    out += text(frame.right + 30, 14, "t", "end", spec.area_label);
  }
  out += text(2, 14, "t", "start", spec.y_label + (frame.y_log ? " (log scale)" : ""));
  out += text((frame.left + frame.right) / 2, frame.bottom + 37, "t", "middle", spec.x_label);
  return out;
}

std::string draw_area(const std::vector<Point>& points, const Frame& frame) {
  std::string path;
  double last_x = 0;
  for (const Point& point : points) {
    if (!std::isfinite(point.y)) continue;
    const double x = frame.x.pixel(point.x);
    if (path.empty()) path = fmt::format("M{:.1f} {:.1f}", x, frame.bottom);
    path += fmt::format("L{:.1f} {:.1f}", x, frame.area.pixel(point.y));
    last_x = x;
  }
  if (path.empty()) return "";
  return fmt::format("<path class=\"area\" d=\"{}L{:.1f} {:.1f}Z\"/>", path, last_x, frame.bottom);
}

std::string marker_shape(Marker marker, double x, double y) {
  switch (marker) {
    case Marker::kSquare:
      return fmt::format("<rect class=\"dot\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\"",
                         x - 3.5, y - 3.5);
    case Marker::kDiamond:
      return fmt::format("<path class=\"dot\" d=\"M{:.1f} {:.1f}l5 5l-5 5l-5 -5z\"", x, y - 5);
    case Marker::kHollowDot:
      return fmt::format("<circle class=\"hollow\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"", x, y);
    default:
      return fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"", x, y);
  }
}

std::string draw_markers(const Series& series, const Frame& frame) {
  std::string out;
  for (const Point& point : series.points) {
    if (!drawable(point, frame)) continue;
    out += marker_shape(series.marker, frame.x.pixel(point.x), frame.y.pixel(point.y));
    out += point.title.empty() ? "/>" : "><title>" + html_escape(point.title) + "</title>";
    if (!point.title.empty())
      out += series.marker == Marker::kSquare    ? "</rect>"
             : series.marker == Marker::kDiamond ? "</path>"
                                                 : "</circle>";
  }
  return out;
}

const char* stroke_class(Stroke stroke) {
  switch (stroke) {
    case Stroke::kThin:
      return "thin";
    case Stroke::kDashed:
      return "dash";
    default:
      return "line";
  }
}

std::string draw_line(const Series& series, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (const Point& point : series.points) {
    if (!drawable(point, frame)) {
      pen_down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", frame.x.pixel(point.x),
                        frame.y.pixel(point.y));
    pen_down = true;
  }
  return fmt::format("<path class=\"{}\" d=\"{}\"/>", stroke_class(series.stroke), path);
}

std::string draw_series(const Series& series, const Frame& frame) {
  std::string out = fmt::format("<g class=\"{}\">", color_class(series.color));
  if (series.stroke != Stroke::kNone) out += draw_line(series, frame);
  if (series.marker != Marker::kNone) out += draw_markers(series, frame);
  return out + "</g>";
}

std::string draw_reference(const Reference& reference, const Frame& frame) {
  const double y = frame.y.pixel(reference.y);
  // The label sits above the line, or below it at the top of the chart.
  const double label_y = y - 6 < frame.top + 8 ? y + 15 : y - 6;
  return fmt::format("<g class=\"{}\"><path class=\"reference\" d=\"M{:.1f} {:.1f}H{:.1f}\"/></g>",
                     color_class(reference.color), frame.left, y, frame.right) +
         text(frame.right - 4, label_y, "t halo", "end", reference.label);
}

}  // namespace

std::string render_chart(const ChartSpec& spec, ChartSize size, const std::string& css_class) {
  const Frame frame = layout(spec, size);
  const std::string clip = html_escape(fmt::format("{}-{}", spec.id, size.width));
  std::string out = fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">"
      "<clipPath id=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>"
      "</clipPath>",
      css_class, size.width, size.height, html_escape(spec.title), clip, frame.left - 6,
      frame.top - 6, frame.right - frame.left + 12, frame.bottom - frame.top + 12);
  for (const auto& area : spec.areas) out += draw_area(area, frame);
  out += draw_axes(spec, frame);
  out += fmt::format("<g clip-path=\"url(#{})\">", clip);
  for (const Series& series : spec.series) out += draw_series(series, frame);
  out += "</g>";
  for (const Reference& reference : spec.references) out += draw_reference(reference, frame);
  return out + "</svg>\n";
}

std::string render_swatch(int color, Stroke stroke, Marker marker) {
  std::string out = fmt::format("<svg class=\"swatch\" viewBox=\"0 0 28 12\"><g class=\"{}\">",
                                color_class(color));
  if (stroke != Stroke::kNone)
    out += fmt::format("<path class=\"{}\" d=\"M1 6H27\"/>", stroke_class(stroke));
  if (marker != Marker::kNone) out += marker_shape(marker, 14, 6) + "/>";
  return out + "</g></svg>";
}

std::string render_area_swatch() {
  return "<svg class=\"swatch\" viewBox=\"0 0 28 12\"><path class=\"area\" d=\"M1 11V1H12L27 "
         "11Z\"/></svg>";
}

}  // namespace taper
