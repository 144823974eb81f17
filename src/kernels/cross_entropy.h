// Cross-entropy over rows of logits: loss = log(sum over v of e^z[v]) - z[target], and its gradient
//   gradient_scale (softmax(z) - onehot(target))
// in T, float, bf16 or double (logits are Real<T>). A row whose target is negative is not counted:
// loss and norm 0, gradient 0. Other targets lie in [0, vocab), which the caller has checked.
// Thread-safe over disjoint row ranges; no allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

template <typename T>
struct CrossEntropyArgs {
  int64_t vocab;
  const int64_t* targets;  // [rows]
  Real<T>* logits;         // [rows, vocab]; used up when there is a gradient
  T* gradient;             // [rows, vocab]; null: not wanted; may be `logits`
  Real<T> gradient_scale;
  double* losses;        // [rows]
  double* square_norms;  // [rows], ||z||^2
};

template <typename T>
void cross_entropy_rows(const CrossEntropyArgs<T>& args, Range rows);

}  // namespace taper
