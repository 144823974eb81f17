// Calibration of a finished, untapered model on real tokens: for each norm the fixed scale c that
// training would freeze, and how much replacing the norm by it would change its output (method.md,
// section 1).
//
// Means are exact over all tokens, not moving averages. In many pre-trained models the first
// position carries a residual stream far larger than the others, and c, a mean weighted by ||h
// gamma||^2, follows that one token (method.md, section 7): so each norm is also judged without
// first positions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "infer/session.h"
#include "infer/token_sample.h"
#include "taper/calibration.h"

namespace taper {

struct NormCalibration {
  std::string name;
  double scale = 0;           // c over all tokens
  double relative_error = 0;  // sqrt( sum ||y - y~||^2 / sum ||y||^2 ) with that c
  double r_p1 = 0, r_median = 0, r_p99 = 0, r_max = 0;
  // Without position 0 of each sequence; absent when sequences are one token long.
  std::optional<double> scale_without_first, relative_error_without_first;
};

struct Calibration {
  std::vector<NormCalibration> norms;  // in execution order
  double anchor_target = 0;            // s_tgt, the mean of r at the final norm's input
  int64_t tokens = 0;
};

// ConfigError when a norm of the model is tapered or folded: c is defined by the plain norm. Shows
// progress; throws Interrupted on Ctrl-C, NumericsError naming a norm whose scale is not positive.
Calibration calibrate(const Model& model, ThreadPool& pool, const TokenSample& sample);

}  // namespace taper
