#include "kernels/rope.h"

#include <cmath>

namespace taper {

template <typename R>
RopeTable<R>::RopeTable(int64_t positions, int64_t head_width, double theta)
    : positions_(positions),
      half_(head_width / 2),
      cos_(static_cast<size_t>(positions * half_)),
      sin_(static_cast<size_t>(positions * half_)) {
  for (int64_t i = 0; i < half_; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
    for (int64_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      const auto index = static_cast<size_t>(position * half_ + i);
      cos_[index] = static_cast<R>(std::cos(angle));
      sin_[index] = static_cast<R>(std::sin(angle));
    }
  }
}

template <typename R>
void RopeTable<R>::rotate(R* x, int64_t heads, int64_t position) const {
  const R* c = cosines(position);
  const R* s = sines(position);
  for (int64_t head = 0; head < heads; ++head, x += 2 * half_) {
    for (int64_t i = 0; i < half_; ++i) {
      const R a = x[i], b = x[half_ + i];
      x[i] = a * c[i] - b * s[i];
      x[half_ + i] = b * c[i] + a * s[i];
    }
  }
}

template class RopeTable<float>;
template class RopeTable<double>;

}  // namespace taper
