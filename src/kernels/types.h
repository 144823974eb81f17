// What the kernels share: ranges, and the type arithmetic is done in. Callers split a range over
// threads; kernels start none.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "core/range.h"

namespace taper {

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
