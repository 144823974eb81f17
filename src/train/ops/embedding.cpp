// embedding: rows of a table; the gradient is a sum in the order of the ids.
#include <torch/csrc/autograd/custom_function.h>

#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void convert_row(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
void convert_row(const double* from, int64_t count, double* to) { std::copy_n(from, count, to); }
void convert_row(const float* from, int64_t count, bf16* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

float to_real(float x) { return x; }
double to_real(double x) { return x; }
float to_real(bf16 x) { return to_float(x); }

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& ids_in,
                            const at::Tensor& weight_in, at::ScalarType type) {
    const at::Tensor ids = ids_in.contiguous(), weight = weight_in.contiguous();
    const int64_t width = weight.size(1);
    std::vector<int64_t> sizes = ids.sizes().vec();
    sizes.push_back(width);
    at::Tensor out = at::empty(sizes, weight.options().dtype(type));
    const int64_t* index = read<int64_t>(ids);
    dispatch(type, [&]<typename T>() {
      const Real<T>* table = read<Real<T>>(weight);
      T* to = write<T>(out);
      at::parallel_for(0, ids.numel(), 64, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          convert_row(table + index[n] * width, width, to + n * width);
      });
    });
    context->save_for_backward({ids});
    context->saved_data["vocab"] = weight.size(0);
    return out;
  }

  // Each thread owns a range of table rows and walks over all ids, so the order of the additions
  // into a row is the order of the ids.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor ids = context->get_saved_variables()[0];
    const at::Tensor dy = gradients[0].contiguous();
    const int64_t vocab = context->saved_data["vocab"].toInt(), width = dy.size(-1);
    const at::ScalarType real = dy.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor dweight = at::zeros({vocab, width}, dy.options().dtype(real));
    const int64_t* index = read<int64_t>(ids);
    dispatch(dy.scalar_type(), [&]<typename T>() {
      const T* from = read<T>(dy);
      Real<T>* to = write<Real<T>>(dweight);
      at::parallel_for(0, vocab, 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = 0; n < ids.numel(); ++n) {
          if (index[n] < begin || index[n] >= end) continue;
          Real<T>* row = to + index[n] * width;
          for (int64_t i = 0; i < width; ++i) row[i] += to_real(from[n * width + i]);
        }
      });
    });
    return {{}, dweight, {}};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight, at::ScalarType type) {
  require_cpu("embedding", "weight", weight);
  require_cpu("embedding", "ids", ids);
  const bool double_pair = weight.scalar_type() == at::kDouble && type == at::kDouble;
  const bool float_pair =
      weight.scalar_type() == at::kFloat && (type == at::kFloat || type == at::kBFloat16);
  if (weight.dim() != 2 || !(double_pair || float_pair)) {
    throw ShapeError(
        fmt::format("embedding: weight is {} beside activations {}, expected [V, D] of "
                    "Float (Double beside Double)",
                    describe(weight), c10::toString(type)));
  }
  if (ids.scalar_type() != at::kLong)
    throw ShapeError(fmt::format("embedding: ids are {}, expected Long", describe(ids)));
  const at::Tensor flat = ids.contiguous();
  const int64_t* index = read<int64_t>(flat);
  for (int64_t n = 0; n < flat.numel(); ++n) {
    if (index[n] < 0 || index[n] >= weight.size(0)) {
      throw ShapeError(
          fmt::format("embedding: id {} at position {} lies outside the vocabulary of {}", index[n],
                      n, weight.size(0)));
    }
  }
  return EmbeddingFunction::apply(flat, weight, type);
}

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight) {
  require_cpu("embedding", "weight", weight);
  return embedding(ids, weight, weight.scalar_type());
}

}  // namespace taper::ops
