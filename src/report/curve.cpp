#include "report/curve.h"

#include <algorithm>
#include <cmath>

namespace taper {

std::vector<Point> smoothed(const std::vector<Point>& points, double window) {
  const double weight = 1.0 / std::max(window, 1.0);
  double sum = 0, total = 0;
  std::vector<Point> out;
  out.reserve(points.size());
  for (const Point& point : points) {
    if (std::isnan(point.y)) {
      out.push_back(point);
      continue;
    }
    sum = (1 - weight) * sum + weight * point.y;
    total = (1 - weight) * total + weight;
    out.push_back({point.x, sum / total, point.title});
  }
  return out;
}

std::vector<Point> thinned(const std::vector<Point>& points, int max_points) {
  const size_t count = points.size();
  if (count <= static_cast<size_t>(max_points)) return points;
  std::vector<Point> out{points.front()};
  const size_t buckets = static_cast<size_t>(max_points - 2) / 2;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const size_t begin = 1 + bucket * (count - 2) / buckets;
    const size_t end = 1 + (bucket + 1) * (count - 2) / buckets;
    size_t low = end, high = end;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(points[i].y)) continue;
      if (low == end || points[i].y < points[low].y) low = i;
      if (high == end || points[i].y > points[high].y) high = i;
    }
    if (low == end) {
      out.push_back(points[begin]);
      continue;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
  }
  out.push_back(points.back());
  return out;
}

}  // namespace taper
