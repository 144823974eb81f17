// A chart's axis: data values to pixels, with ticks at round values.
#pragma once

#include <string>
#include <vector>

namespace taper {

struct Tick {
  double value;
  std::string label;
};

class Scale {
 public:
  // Linear, widened to round values when `nice`. Equal ends are pulled apart.
  static Scale linear(double low, double high, int max_ticks, bool nice = true);
  // Logarithmic, 0 < low <= high; ticks at powers of ten, with more between them while there is
  // room.
  static Scale logarithmic(double low, double high, int max_ticks);

  void set_pixels(double at_low, double at_high);
  double pixel(double value) const;  // values outside the axis land outside its pixels
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  double position(double value) const;  // 0 at low, 1 at high

  bool log_ = false;
  double low_ = 0, high_ = 1;
  double pixel_low_ = 0, pixel_high_ = 1;
  std::vector<Tick> ticks_;
};

// The tick label: as few digits as the step between ticks needs, thousands grouped, "2e-05" when
// tiny.
std::string tick_label(double value, double step);

}  // namespace taper
