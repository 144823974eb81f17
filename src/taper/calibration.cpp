#include "taper/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace taper {
namespace {

constexpr double kDelta = 1e-12;  // keeps c finite for a stream of zeros

const double kLogBin = std::log(1.01);
constexpr double kSmallest = 1e-9, kLargest = 1e9;

double checked_scale(const std::string& norm, double numerator, double denominator) {
  const double scale = numerator / (denominator + kDelta);
  if (std::isfinite(scale) && scale > 0) return scale;
  throw NumericsError(
      fmt::format("{}: calibration gave the scale c = {} (numerator {}, denominator {})", norm,
                  scale, numerator, denominator),
      "c must be finite and positive: look for zero or non-finite weights and activations");
}

[[noreturn]] void no_statistics(const std::string& where) {
  throw NumericsError(where + ": tapering needs calibration, but no statistics were gathered",
                      "run some steps at gate 1 before the taper starts (taper.start > 0)");
}

}  // namespace

void ema_update(EmaState& state, double weight, double sample) {
  state.value = (1.0 - weight) * state.value + weight * sample;
  ++state.updates;
}

double ema_mean(const EmaState& state, double weight) {
  if (state.updates == 0) no_statistics("moving average");
  // 1 - (1 - m)^n without the cancellation of small m n.
  const double correction = -std::expm1(static_cast<double>(state.updates) * std::log1p(-weight));
  return state.value / correction;
}

double calibrated_scale(const std::string& norm, const EmaState& numerator,
                        const EmaState& denominator, double weight) {
  if (numerator.updates == 0 || denominator.updates == 0) no_statistics(norm);
  return checked_scale(norm, ema_mean(numerator, weight), ema_mean(denominator, weight));
}

double NormStatistics::add(const float* h, const float* gamma, int64_t width, double eps) {
  double squares = 0;
  double weight = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double value = h[i];
    const double weighted = value * gamma[i];
    squares += value * value;
    weight += weighted * weighted;
  }
  const double r = std::sqrt(squares / static_cast<double>(width) + eps);
  sum_weight += weight;
  sum_weight_over_r += weight / r;
  sum_weight_over_r2 += weight / (r * r);
  sum_r += r;
  min_r = tokens == 0 ? r : std::min(min_r, r);
  max_r = tokens == 0 ? r : std::max(max_r, r);
  ++tokens;
  return r;
}

void NormStatistics::merge(const NormStatistics& other) {
  if (other.tokens == 0) return;
  min_r = tokens == 0 ? other.min_r : std::min(min_r, other.min_r);
  max_r = tokens == 0 ? other.max_r : std::max(max_r, other.max_r);
  tokens += other.tokens;
  sum_weight += other.sum_weight;
  sum_weight_over_r += other.sum_weight_over_r;
  sum_weight_over_r2 += other.sum_weight_over_r2;
  sum_r += other.sum_r;
}

double NormStatistics::numerator() const {
  if (tokens == 0) no_statistics("norm statistics");
  return sum_weight_over_r / static_cast<double>(tokens);
}

double NormStatistics::denominator() const {
  if (tokens == 0) no_statistics("norm statistics");
  return sum_weight / static_cast<double>(tokens);
}

double NormStatistics::mean_r() const {
  if (tokens == 0) no_statistics("norm statistics");
  return sum_r / static_cast<double>(tokens);
}

double NormStatistics::scale(const std::string& norm) const {
  if (tokens == 0) no_statistics(norm);
  return checked_scale(norm, numerator(), denominator());
}

double NormStatistics::relative_error(double c) const {
  if (tokens == 0) no_statistics("norm statistics");
  const double error = sum_weight_over_r2 - 2 * c * sum_weight_over_r + c * c * sum_weight;
  return std::sqrt(std::max(error, 0.0) / sum_weight_over_r2);
}

void ScaleHistogram::add(double r) {
  const auto bin = [](double value) {
    return static_cast<size_t>(std::log(value / kSmallest) / kLogBin);
  };
  if (bins_.empty()) bins_.resize(bin(kLargest) + 1);
  // Not std::clamp: a NaN, which has no place in an order, goes to the largest bin.
  const double inside = r < kSmallest ? kSmallest : r < kLargest ? r : kLargest;
  ++bins_[bin(inside)];
  ++count_;
}

double ScaleHistogram::quantile(double share) const {
  if (count_ == 0) no_statistics("quantiles of r");
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  size_t bin = 0;
  while (static_cast<double>(seen += bins_[bin]) < wanted) ++bin;
  return kSmallest * std::exp((static_cast<double>(bin) + 0.5) * kLogBin);
}

}  // namespace taper
