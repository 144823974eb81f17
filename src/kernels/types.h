// What the kernels share: a range of rows, and the type arithmetic is done in.
#pragma once

#include <cstdint>

#include "core/bf16.h"

namespace taper {

// Rows [begin, end). Callers split a range over threads; kernels start none.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Real<T>: statistics, parameters and gradients of parameters beside activations stored as T.
template <typename T>
struct RealOf {
  using type = T;
};
template <>
struct RealOf<bf16> {
  using type = float;
};
template <typename T>
using Real = typename RealOf<T>::type;

}  // namespace taper
