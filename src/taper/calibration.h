// Calibration of the fixed scales (method.md, section 1), gathered while g = 1:
//   c* = E[ ||h gamma||^2 / r ] / E[ ||h gamma||^2 ],   s_tgt = E[ r ] at the final norm's input,
// each expectation an EMA over optimizer steps, s <- (1 - m) s + m x, bias-corrected by
// 1 - (1 - m)^n.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/checkpoint.h"

namespace taper {

void ema_update(EmaState& state, double weight, double sample);
// value / (1 - (1 - m)^n): the exact weighted mean of the samples. NumericsError when n == 0.
double ema_mean(const EmaState& state, double weight);

// c = num / (den + 1e-12) from the bias-corrected means; NumericsError naming `norm` when no
// statistics were gathered ("tapering needs calibration") or the result is not finite and positive.
double calibrated_scale(const std::string& norm, const EmaState& numerator,
                        const EmaState& denominator, double weight);

// What calibration needs to know of one norm over many tokens, as sums in double: with
// a = ||h gamma||^2 and r = sqrt(mean(h^2) + eps) of a token, the sums of a, a/r, a/r^2 and r.
// They also give, for any c, the exact error of replacing y = h/r gamma by y~ = c h gamma, since
// ||y - y~||^2 = a/r^2 - 2 c a/r + c^2 a. Sums of parts add up (several threads, ranks, batches).
struct NormStatistics {
  int64_t tokens = 0;
  double sum_weight = 0;          // a
  double sum_weight_over_r = 0;   // a/r
  double sum_weight_over_r2 = 0;  // a/r^2
  double sum_r = 0;
  double min_r = 0, max_r = 0;  // over all tokens; 0 when there is none

  // One token: `h` and `gamma` hold `width` values. Returns r.
  double add(const float* h, const float* gamma, int64_t width, double eps);
  void merge(const NormStatistics& other);

  // The samples of the EMAs: means over the tokens seen. All need tokens > 0 (NumericsError).
  double numerator() const;
  double denominator() const;
  double mean_r() const;

  // c = num / (den + 1e-12); NumericsError naming `norm` without tokens or when not positive.
  double scale(const std::string& norm) const;
  // sqrt( sum ||y - y~||^2 / sum ||y||^2 ) with the fixed scale c.
  double relative_error(double c) const;
};

// Quantiles of r over any number of tokens: bins a factor of 1.01 wide, so to 0.5 %.
class ScaleHistogram {
 public:
  void add(double r);  // r > 0; beyond 1e-9..1e9 it counts as the border
  int64_t count() const { return count_; }
  // The centre of the bin that holds the value at `share` in [0, 1]; NumericsError when empty.
  double quantile(double share) const;

 private:
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
};

}  // namespace taper
