// causal_attention over kernels/attention_train.h, and the rotary tables.
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "kernels/attention_train.h"
#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AttentionShape shape_of(const at::Tensor& qkv, int64_t num_heads, int64_t num_kv_heads) {
  return {qkv.size(0), qkv.size(1), num_heads, num_kv_heads,
          qkv.size(2) / (num_heads + 2 * num_kv_heads)};
}

// body(groups, part, scratch): one range of groups and one piece of scratch a thread.
template <class Body>
void over_groups(const AttentionShape& shape, int64_t scratch_size, const at::TensorOptions& real,
                 const Body& body) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), shape.groups());
  at::Tensor scratch = at::empty({std::max<int64_t>(threads, 1), scratch_size}, real);
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Range groups{shape.groups() * i / threads, shape.groups() * (i + 1) / threads};
      body(groups, i, scratch);
    }
  });
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv_in, int64_t num_heads,
                            int64_t num_kv_heads, const at::Tensor& cosines,
                            const at::Tensor& sines) {
    const at::Tensor qkv = qkv_in.contiguous();
    const AttentionShape shape = shape_of(qkv, num_heads, num_kv_heads);
    const at::TensorOptions real = cosines.options();
    at::Tensor out =
        at::empty({shape.batch, shape.time, num_heads * shape.head_width}, qkv.options());
    at::Tensor lse = at::empty({shape.batch, num_heads, shape.time}, real);
    dispatch(qkv.scalar_type(), [&]<typename T>() {
      using R = Real<T>;
      T* to = write<T>(out);
      R* statistics = write<R>(lse);
      over_groups(shape, attention_forward_scratch(shape), real,
                  [&](Range groups, int64_t part, at::Tensor& scratch) {
                    attention_forward<T>(shape, groups, read<T>(qkv), read<R>(cosines),
                                         read<R>(sines), to, statistics,
                                         write<R>(scratch) + part * scratch.size(1));
                  });
    });
    context->save_for_backward({qkv, cosines, sines, out, lse});
    context->saved_data["num_heads"] = num_heads;
    context->saved_data["num_kv_heads"] = num_kv_heads;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &cosines = saved[1], &sines = saved[2], &out = saved[3],
                     &lse = saved[4];
    const AttentionShape shape = shape_of(qkv, context->saved_data["num_heads"].toInt(),
                                          context->saved_data["num_kv_heads"].toInt());
    const at::Tensor dout = gradients[0].contiguous();
    at::Tensor dqkv = at::empty_like(qkv);
    dispatch(qkv.scalar_type(), [&]<typename T>() {
      using R = Real<T>;
      T* to = write<T>(dqkv);
      over_groups(shape, attention_backward_scratch(shape), cosines.options(),
                  [&](Range groups, int64_t part, at::Tensor& scratch) {
                    attention_backward<T>(shape, groups, read<T>(qkv), read<R>(cosines),
                                          read<R>(sines), read<T>(out), read<R>(lse), read<T>(dout),
                                          to, write<R>(scratch) + part * scratch.size(1));
                  });
    });
    return {dqkv, {}, {}, {}, {}};
  }
};

void check_rope(const char* name, const at::Tensor& table, at::ScalarType real,
                const at::Tensor& qkv, int64_t head_width) {
  require_parameter("causal_attention", name, table, real, qkv);
  if (table.dim() != 2 || table.size(0) < qkv.size(1) || table.size(1) != head_width / 2 ||
      !table.is_contiguous()) {
    throw ShapeError(
        fmt::format("causal_attention: {} is {}, expected at least [{}, {}], contiguous", name,
                    describe(table), qkv.size(1), head_width / 2));
  }
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, int64_t num_heads, int64_t num_kv_heads,
                            const at::Tensor& rope_cos, const at::Tensor& rope_sin) {
  const char* op = "causal_attention";
  const at::ScalarType real = real_type(op, "qkv", qkv);
  if (num_heads < 1 || num_kv_heads < 1 || num_heads % num_kv_heads != 0) {
    throw ShapeError(fmt::format("{}: {} query heads do not divide into {} key/value heads", op,
                                 num_heads, num_kv_heads));
  }
  const int64_t heads = num_heads + 2 * num_kv_heads;
  if (qkv.dim() != 3 || qkv.size(2) % (2 * heads) != 0 || qkv.size(2) == 0) {
    throw ShapeError(fmt::format("{}: qkv is {}, expected [B, T, {} heads of one even width]", op,
                                 describe(qkv), heads));
  }
  check_rope("rope_cos", rope_cos, real, qkv, qkv.size(2) / heads);
  check_rope("rope_sin", rope_sin, real, qkv, qkv.size(2) / heads);
  return AttentionFunction::apply(qkv, num_heads, num_kv_heads, rope_cos, rope_sin);
}

RopeTables rope_tables(int64_t positions, int64_t head_width, double theta, at::ScalarType type) {
  const int64_t half = head_width / 2;
  at::Tensor cosines = at::empty({positions, half}, at::kDouble);
  at::Tensor sines = at::empty({positions, half}, at::kDouble);
  double* c = write<double>(cosines);
  double* s = write<double>(sines);
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
    for (int64_t t = 0; t < positions; ++t) {
      const double angle = static_cast<double>(t) * frequency;
      c[t * half + i] = std::cos(angle);
      s[t * half + i] = std::sin(angle);
    }
  }
  return {cosines.to(type), sines.to(type)};
}

}  // namespace taper::ops
