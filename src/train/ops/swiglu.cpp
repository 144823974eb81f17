// swiglu over kernels/swiglu.h.
#include "kernels/swiglu.h"

#include <torch/csrc/autograd/custom_function.h>

#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlockRows = 32;

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up_in) {
    const at::Tensor gate_up = gate_up_in.contiguous();
    std::vector<int64_t> sizes = gate_up.sizes().vec();
    sizes.back() /= 2;
    at::Tensor y = at::empty(sizes, gate_up.options());
    const RowBlocks blocks{rows_of(gate_up), kBlockRows};
    dispatch(gate_up.scalar_type(), [&]<typename T>() {
      T* to = write<T>(y);
      blocks.parallel([&](int64_t, Range rows) {
        swiglu_forward<T>(rows, sizes.back(), read<T>(gate_up), to);
      });
    });
    context->save_for_backward({gate_up});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dgate_up = at::empty_like(gate_up);
    const RowBlocks blocks{rows_of(gate_up), kBlockRows};
    dispatch(gate_up.scalar_type(), [&]<typename T>() {
      T* to = write<T>(dgate_up);
      blocks.parallel([&](int64_t, Range rows) {
        swiglu_backward<T>(rows, dy.size(-1), read<T>(gate_up), read<T>(dy), to);
      });
    });
    return {dgate_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  real_type("swiglu", "gate_up", gate_up);
  if (gate_up.dim() < 1 || gate_up.size(-1) % 2 != 0) {
    throw ShapeError(fmt::format("swiglu: gate_up is {}, expected an even last dimension (2F)",
                                 describe(gate_up)));
  }
  return SwigluFunction::apply(gate_up);
}

}  // namespace taper::ops
