#include "report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/curve.h"
#include "report/format.h"
#include "report/scale.h"

namespace taper {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> labels(const Scale& scale) {
  std::vector<std::string> out;
  for (const Tick& tick : scale.ticks()) out.push_back(tick.label);
  return out;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<Point> noise(int size) {
  std::vector<Point> points;
  for (int i = 0; i < size; ++i) points.push_back({double(i), std::sin(i * 12.9898) * 10});
  return points;
}

TEST(Scale, Linear_HasRoundTicks) {
  EXPECT_EQ(labels(Scale::linear(2.83, 5.4, 6)),
            (std::vector<std::string>{"2.5", "3.0", "3.5", "4.0", "4.5", "5.0", "5.5"}));
  EXPECT_EQ(labels(Scale::linear(0, 1000, 5, false)),
            (std::vector<std::string>{"0", "200", "400", "600", "800", "1,000"}));
  EXPECT_EQ(labels(Scale::linear(-0.13, 0.21, 4)),
            (std::vector<std::string>{"-0.2", "-0.1", "0", "0.1", "0.2", "0.3"}));
}

TEST(Scale, Logarithmic_HasTicksAtPowersOfTen) {
  EXPECT_EQ(labels(Scale::logarithmic(0.9, 1100, 5)),
            (std::vector<std::string>{"1", "10", "100", "1,000"}));
}

TEST(Scale, EqualEnds_StillMakeAnAxis) {
  for (const double value : {0.0, 3.0, -2.5, 1e-9}) {
    const Scale scale = Scale::linear(value, value, 5);
    EXPECT_LT(scale.low(), value);
    EXPECT_GT(scale.high(), value);
    EXPECT_GE(scale.ticks().size(), 2u);
  }
}

TEST(Scale, Pixel_MapsTheEndsAndTheMiddle) {
  Scale scale = Scale::linear(0, 10, 5);
  scale.set_pixels(300, 100);
  EXPECT_DOUBLE_EQ(scale.pixel(0), 300);
  EXPECT_DOUBLE_EQ(scale.pixel(10), 100);
  EXPECT_DOUBLE_EQ(scale.pixel(5), 200);
}

TEST(Curve, Thinned_KeepsEndsAndSpikesWithinTheLimit) {
  std::vector<Point> points = noise(100'000);
  points[54'321].y = 1e6;
  points[77'777].y = -1e6;
  const std::vector<Point> thin = thinned(points);
  EXPECT_LE(thin.size(), static_cast<size_t>(kMaxCurvePoints));
  EXPECT_GE(thin.size(), static_cast<size_t>(kMaxCurvePoints) * 9 / 10);
  EXPECT_EQ(thin.front().x, 0);
  EXPECT_EQ(thin.back().x, 99'999);
  const auto by_y = [](const Point& a, const Point& b) { return a.y < b.y; };
  EXPECT_EQ(std::max_element(thin.begin(), thin.end(), by_y)->x, 54'321);
  EXPECT_EQ(std::min_element(thin.begin(), thin.end(), by_y)->x, 77'777);
  EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(),
                             [](const Point& a, const Point& b) { return a.x < b.x; }));
}

TEST(Curve, Smoothed_IsTheWeightedMeanOfWhatCameBefore) {
  const std::vector<Point> curve = smoothed({{0, 8}, {1, NAN}, {2, 4}}, 4);
  EXPECT_DOUBLE_EQ(curve[0].y, 8);
  EXPECT_TRUE(std::isnan(curve[1].y));
  EXPECT_DOUBLE_EQ(curve[2].y, (0.75 * 8 + 4) / 1.75);
}

TEST(Chart, ANanInACurve_IsAGap) {
  ChartSpec spec;
  spec.id = "x";
  spec.series.push_back({0,
                         Stroke::kSolid,
                         Marker::kNone,
                         {{0, 1}, {1, 2}, {2, NAN}, {3, 1}, {4, INFINITY}, {5, 2}}});
  const std::string svg = render_chart(spec, {400, 200}, "c");
  const size_t line = svg.find("class=\"line\"");
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  EXPECT_EQ(count(path, "M"), 3);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(Chart, WithoutAnyData_IsStillAChart) {
  ChartSpec spec;
  spec.id = "empty";
  spec.series.push_back({0, Stroke::kSolid, Marker::kDot, {{1, NAN}}});
  const std::string svg = render_chart(spec, {400, 200}, "c");
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, Text_IsEscaped) {
  ChartSpec spec;
  spec.id = "x";
  spec.title = "a \"b\" <c>";
  spec.series.push_back({0, Stroke::kNone, Marker::kDot, {{0, 1, "<script>&"}}});
  const std::string svg = render_chart(spec, {400, 200}, "c");
  EXPECT_THAT(svg, HasSubstr("aria-label=\"a &quot;b&quot; &lt;c&gt;\""));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;script&gt;&amp;</title>"));
}

TEST(Format, Numbers_ReadAsPeopleWriteThem) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(-999), "-999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-123456), "-123,456");
  EXPECT_EQ(format_significant(3.14159, 3), "3.14");
  EXPECT_EQ(format_significant(0.0031416, 2), "0.0031");
  EXPECT_EQ(format_significant(3.2e-7, 2), "3.2e-07");
  EXPECT_EQ(format_significant(12345.6, 4), "12,346");
  EXPECT_EQ(format_significant(NAN, 4), "–");
  EXPECT_EQ(format_percent(0.274), "+0.27 %");
  EXPECT_EQ(format_percent(-0.5), "-0.50 %");
}

TEST(Format, HtmlEscape_LeavesNoMarkupAndNoControlCharacters) {
  EXPECT_EQ(html_escape("a<b>&\"'\n\tü"), "a&lt;b&gt;&amp;&quot;&#39;\n\tü");
  EXPECT_EQ(html_escape(std::string("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
}

}  // namespace
}  // namespace taper
