// linear: x W^T through at::mm.
#include <torch/csrc/autograd/custom_function.h>

#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor as_rows(const at::Tensor& t) { return t.reshape({rows_of(t), t.size(-1)}); }

// Weights stay float beside bfloat16 activations: converted for the products that feed activations,
// while the weight's own gradient is accumulated in float.
class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    return at::mm(as_rows(x), weight.to(x.scalar_type()).t()).view(sizes);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = as_rows(gradients[0]);
    at::Tensor dx, dweight;
    if (context->needs_input_grad(0)) dx = at::mm(dy, weight.to(x.scalar_type())).view(x.sizes());
    if (context->needs_input_grad(1)) {
      const at::ScalarType real = weight.scalar_type();
      dweight = at::mm(dy.to(real).t(), as_rows(x).to(real));
    }
    return {dx, dweight};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  require_parameter("linear", "weight", weight, real_type("linear", "x", x), x);
  if (weight.dim() != 2 || x.dim() < 1 || weight.size(1) != x.size(-1)) {
    throw ShapeError(fmt::format("linear: weight is {}, expected [out, in] with in = {} of x {}",
                                 describe(weight), x.dim() ? x.size(-1) : 0, describe(x)));
  }
  return LinearFunction::apply(x, weight);
}

}  // namespace taper::ops
