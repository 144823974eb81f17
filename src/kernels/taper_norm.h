// Tapered RMS normalization and the anchor's statistic (method.md, section 1):
//   y = g * (h / r) * gamma + (1 - g) * c * h * gamma_t,   r = sqrt(mean(h^2) + eps)
// Rows are tokens, [rows, D], contiguous. Statistics and parameters are Real<T>: float for float
// and bf16, double for double. At g == 1 the result equals the plain norm bit for bit (gamma_t and
// c are not read); at g == 0 no statistic is computed: gamma is not read and `rstd` is not touched.
// Thread-safe: callers may run disjoint row ranges in parallel. No allocation, no exception.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

template <typename R>
struct TaperNormArgs {
  const R* gamma;    // [D]
  const R* gamma_t;  // [D]
  R scale;           // c, frozen at the taper start
  R gate;            // g in [0, 1]
  R eps;
  int64_t width;  // D
};

// Calibration's sums over rows (method.md, section 1), added to.
struct TaperNormSums {
  double numerator = 0;    // sum of ||h gamma||^2 / r
  double denominator = 0;  // sum of ||h gamma||^2
  double scale = 0;        // sum of r
  int64_t rows = 0;

  TaperNormSums& operator+=(const TaperNormSums& other) {
    numerator += other.numerator;
    denominator += other.denominator;
    scale += other.scale;
    rows += other.rows;
    return *this;
  }
};

// T is float or double; the output is of the same type, or bf16 for float (Y). rstd[row] = 1
// / r. `sums` may be null; else the gate is above 0, and rows whose `mask` byte is 0 are left out
// of it (mask null: none are).
template <typename T, typename Y = T>
void taper_rms_norm_forward(const TaperNormArgs<Real<T>>& args, Range rows, const T* h, Y* y,
                            Real<T>* rstd, TaperNormSums* sums = nullptr,
                            const uint8_t* mask = nullptr);

// With u = gamma * dy:
//   dh = residual + g (u / r - h <h, u> / (D r^3)) + (1 - g) c gamma_t dy
//   dgamma   += g sum over rows of dy h / r                        (not at g == 0)
//   dgamma_t += (1 - g) c sum over rows of dy h                    (not at g == 1)
// `residual`: the gradient that reaches h around the norm; null for none; it may be dh. `y`, when
// given, gets the norm's output again, the same bits as in the forward pass, so that nobody has to
// keep it.
template <typename T, typename Y = T>
void taper_rms_norm_backward(const TaperNormArgs<Real<T>>& args, Range rows, const T* h,
                             const T* dy, const Real<T>* rstd, const T* residual, T* dh,
                             Real<T>* dgamma, Real<T>* dgamma_t, Y* y = nullptr);

// r of every row: the anchor's statistic s(h).
template <typename T>
void residual_scale_rows(Range rows, int64_t width, Real<T> eps, const T* h, Real<T>* r);

// Adds the gradient of weight * sum of (r - target)^2:
//   dh += 2 weight (r - target) / (D r) h, but for rows whose mask byte is 0.
template <typename T>
void anchor_backward_rows(Range rows, int64_t width, Real<T> target, Real<T> weight, const T* h,
                          const Real<T>* r, const uint8_t* mask, T* dh);

}  // namespace taper
