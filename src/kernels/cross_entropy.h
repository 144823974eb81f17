// Cross-entropy over rows of logits, in place: loss = log(sum over v of e^z[v]) - z[target], and
// the logits become dloss/dz = softmax(z) - onehot(target). R is float or double. A row whose
// target is negative is not counted: loss and norm 0, gradient 0. Other targets lie in [0, vocab),
// which the caller has checked. Thread-safe over disjoint row ranges; no allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

template <typename R>
struct CrossEntropyArgs {
  int64_t vocab;
  const int64_t* targets;  // [rows]
  R* logits;               // [rows, vocab]; overwritten by the gradient when `gradient`
  double* losses;          // [rows]
  double* square_norms;    // [rows], ||z||^2
  bool gradient;
};

template <typename R>
void cross_entropy_rows(const CrossEntropyArgs<R>& args, RowRange rows);

}  // namespace taper
