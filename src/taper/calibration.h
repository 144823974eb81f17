// Calibration of the fixed scales (method.md, section 1), gathered while g = 1:
//   c* = E[ ||h gamma||^2 / r ] / E[ ||h gamma||^2 ],   s_tgt = E[ r ] at the final norm's input,
// each expectation an EMA over optimizer steps, s <- (1 - m) s + m x, bias-corrected by 1 - (1 - m)^n.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/checkpoint.h"

namespace taper {

void ema_update(EmaState& state, double weight, double sample);
// value / (1 - (1 - m)^n): the exact weighted mean of the samples. NumericsError when n == 0.
double ema_mean(const EmaState& state, double weight);

// c = num / (den + 1e-12) from the bias-corrected means; NumericsError naming `norm` when no statistics
// were gathered ("tapering needs calibration") or the result is not finite and positive.
double calibrated_scale(const std::string& norm, const EmaState& numerator,
                        const EmaState& denominator, double weight);

}  // namespace taper
