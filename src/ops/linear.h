// The matrix products of linear layers. Everything is row-major and contiguous.
//   x: [N, in], weight: [out, in], y: [N, out]
// T is float, bf16 with float accumulation (both on oneDNN, each thread a part of its own), or
// double over plain loops: the reference. Products are prepared on first use of a shape and kept.
// Results repeat bit for bit at a fixed size of the team. Errors: ops/onednn.h.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bf16.h"
#include "kernels/types.h"
#include "ops/context.h"

namespace taper {

struct LinearShape {
  int64_t rows;  // N
  int64_t in;
  int64_t out;
};

class LinearOp {
 public:
  explicit LinearOp(ThreadPool& team);  // must outlive the op
  ~LinearOp();

  // y = x weight^T, plus `residual` [N, out] when given (it may not be y). Results are in T or
  // Real<T>.
  template <typename T, typename Y>
  void forward(const LinearShape& shape, const T* x, const T* weight, Y* y,
               const Y* residual = nullptr);
  // dx = dy weight; with `accumulate`, dx += dy weight. In T or Real<T>.
  template <typename T, typename X>
  void input_gradient(const LinearShape& shape, const T* dy, const T* weight, X* dx,
                      bool accumulate = false);
  // dweight += dy^T x in Real<T>.
  template <typename T, typename R>
  void weight_gradient(const LinearShape& shape, const T* dy, const T* x, R* dweight);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taper
