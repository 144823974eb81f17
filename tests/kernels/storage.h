// Tests of kernels that store float, bf16 or double: the same numbers in each.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/bf16.h"
#include "core/random.h"

namespace taper::test {

using Values = std::vector<double>;

inline size_t at(int64_t i) { return static_cast<size_t>(i); }

// Values that bf16 holds exactly, so that every storage type sees the same inputs.
inline Values random_values(int64_t count, uint64_t seed, double spread = 1.0, double mean = 0.0) {
  Random random(seed);
  Values values(static_cast<size_t>(count));
  for (double& x : values)
    x = to_float(to_bf16(static_cast<float>(mean + spread * random.normal())));
  return values;
}

template <typename T>
std::vector<T> stored(const Values& from) {
  std::vector<T> to;
  to.reserve(from.size());
  for (double x : from)
    if constexpr (std::is_same_v<T, bf16>)
      to.push_back(to_bf16(static_cast<float>(x)));
    else
      to.push_back(static_cast<T>(x));
  return to;
}

template <typename T>
Values widened(const std::vector<T>& from) {
  Values to;
  to.reserve(from.size());
  for (T x : from)
    if constexpr (std::is_same_v<T, bf16>)
      to.push_back(to_float(x));
    else
      to.push_back(static_cast<double>(x));
  return to;
}

// Within tolerance * (1 + |expected|), element by element.
inline void expect_near(const Values& result, const Values& expected, double tolerance) {
  ASSERT_EQ(result.size(), expected.size());
  for (size_t i = 0; i < result.size(); ++i)
    ASSERT_NEAR(result[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
}

// d(sum of weights * f)/d(x) by central differences.
template <class Function>
Values central_differences(Values x, const Values& weights, const Function& f, double step = 1e-5) {
  const auto value = [&] {
    const Values y = f(x);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  Values gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + step;
    const double above = value();
    x[i] = before - step;
    gradient[i] = (above - value()) / (2 * step);
    x[i] = before;
  }
  return gradient;
}

// One result within this of the formula's: arithmetic in the type, one rounding when stored.
template <typename T>
constexpr double kRounding = std::is_same_v<T, double> ? 1e-12 : 3e-6;
template <>
inline constexpr double kRounding<bf16> = 4e-3;

}  // namespace taper::test
