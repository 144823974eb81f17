// Curves made ready for drawing: smoothed, and thinned to a number of points that a page can carry.
// A NaN in y is a gap.
#pragma once

#include <string>
#include <vector>

namespace taper {

struct Point {
  double x = 0;
  double y = 0;
  std::string title = {};  // the tooltip of a marked point
};

inline constexpr int kMaxCurvePoints = 600;

// Exponential moving average over about `window` points, bias-corrected: the first value is itself,
// and each value is a weighted mean of those before it. NaN samples stay NaN and do not enter the
// mean.
std::vector<Point> smoothed(const std::vector<Point>& points, double window);

// At most `max_points` points: of each of max_points / 2 runs of neighbours its lowest and highest,
// in order, so that no spike is lost. Ends are kept; a run of nothing but NaN keeps a gap.
std::vector<Point> thinned(const std::vector<Point>& points, int max_points = kMaxCurvePoints);

}  // namespace taper
