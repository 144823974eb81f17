// What the ops share: checks at the entry, dispatch on the storage type, the split over threads.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "kernels/types.h"

namespace taper::ops {

inline std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("{} [{}]", c10::toString(t.scalar_type()), fmt::join(t.sizes(), ", "));
}

inline void require_cpu(const char* op, const char* name, const at::Tensor& t) {
  if (!t.defined()) throw ShapeError(fmt::format("{}: {} is undefined", op, name));
  if (!t.device().is_cpu()) throw ShapeError(fmt::format("{}: {} is not in host memory", op, name));
}

// The type of statistics and parameters beside activations of this type.
inline at::ScalarType real_type(const char* op, const char* name, const at::Tensor& t) {
  require_cpu(op, name, t);
  switch (t.scalar_type()) {
    case at::kFloat:
    case at::kBFloat16:
      return at::kFloat;
    case at::kDouble:
      return at::kDouble;
    default:
      throw ShapeError(
          fmt::format("{}: {} is {}, expected Float, BFloat16 or Double", op, name, describe(t)));
  }
}

// A parameter: its type goes with the activations'.
inline void require_parameter(const char* op, const char* name, const at::Tensor& t,
                              at::ScalarType expected, const at::Tensor& beside) {
  require_cpu(op, name, t);
  if (t.scalar_type() != expected) {
    throw ShapeError(fmt::format("{}: {} is {} beside activations {}, expected {}", op, name,
                                 describe(t), describe(beside), c10::toString(expected)));
  }
}

inline int64_t rows_of(const at::Tensor& t) { return t.size(-1) == 0 ? 0 : t.numel() / t.size(-1); }

template <typename T>
const T* read(const at::Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <typename T>
T* write(at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

// body.template operator()<T>() for the storage type T.
template <class Body>
void dispatch(at::ScalarType type, const Body& body) {
  switch (type) {
    case at::kFloat:
      return body.template operator()<float>();
    case at::kBFloat16:
      return body.template operator()<bf16>();
    case at::kDouble:
      return body.template operator()<double>();
    default:
      TAPER_CHECK(false);
  }
}

// Rows in blocks of fixed size, so that per-block results, added in order, do not depend on the
// number of threads. body(block, rows).
struct RowBlocks {
  int64_t rows, size;
  int64_t count() const { return (rows + size - 1) / size; }
  Range block(int64_t index) const { return {index * size, std::min((index + 1) * size, rows)}; }
  template <class Body>
  void parallel(const Body& body) const {
    at::parallel_for(
        0, count(), 1,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) body(i, block(i));
        });
  }
};

}  // namespace taper::ops
