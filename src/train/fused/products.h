// The matrix products of linear layers, on oneDNN. Everything is row-major and contiguous.
//
// x: [N, in], weight: [out, in], y: [N, out]. T is float or bf16 with float accumulation.
// Primitives are made on first use of a shape and kept. Multi-threaded by itself (OpenMP); call
// from one thread at a time. Results repeat bit for bit at a fixed number of threads.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bf16.h"

namespace taper {

struct LinearShape {
  int64_t rows;  // N
  int64_t in;
  int64_t out;
};

class Products {
 public:
  Products();
  ~Products();

  // y = x weight^T, plus `residual` [N, out] when given (it may not be y). Results are in T or
  // float.
  template <typename T, typename Y>
  void forward(const LinearShape& shape, const T* x, const T* weight, Y* y,
               const Y* residual = nullptr);
  // dx = dy weight; with `accumulate`, dx += dy weight. In T or float.
  template <typename T, typename X>
  void input_gradient(const LinearShape& shape, const T* dy, const T* weight, X* dx,
                      bool accumulate = false);
  // dweight = dy^T x in float; with `accumulate`, dweight += dy^T x.
  template <typename T>
  void weight_gradient(const LinearShape& shape, const T* dy, const T* x, float* dweight,
                       bool accumulate);

  // Whether the CPU has instructions for products of T (bf16: AVX-512 BF16 or AMX).
  static bool has_fast_bf16();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taper
