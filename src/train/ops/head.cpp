// head_cross_entropy: the head's products and kernels/cross_entropy.h, a chunk of rows at a time.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>
#include <vector>

#include "kernels/cross_entropy.h"
#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Logits of a chunk stay within the last-level cache, with rows enough for the products to run at
// speed.
constexpr int64_t kChunkElements = int64_t{1} << 20;
constexpr int64_t kMinChunkRows = 128;

int64_t chunk_rows(int64_t rows, int64_t vocab) {
  const int64_t fitting = std::max(kMinChunkRows, kChunkElements / std::max<int64_t>(vocab, 1));
  return std::clamp<int64_t>(rows, 1, fitting);
}

struct HeadResult {
  at::Tensor dhidden, dweight;  // undefined unless asked for
  std::vector<double> losses;   // one a row
  double loss_sum = 0, logit_norm_sum = 0;
  int64_t count = 0;
};

struct Wanted {
  bool dhidden = false, dweight = false;
};

template <typename R>
void cross_entropy(at::Tensor& logits, const int64_t* targets, bool gradient, double* losses,
                   double* square_norms) {
  R* values = write<R>(logits);
  const CrossEntropyArgs<R> args{
      logits.size(1), targets, values, gradient ? values : nullptr, 1, losses, square_norms};
  RowBlocks{logits.size(0), 4}.parallel(
      [&](int64_t, Range rows) { cross_entropy_rows<R>(args, rows); });
}

// hidden [N, D] and targets [N] contiguous.
HeadResult run(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
               Wanted wanted) {
  const at::NoGradGuard no_grad;
  const int64_t rows = hidden.size(0), vocab = weight.size(0);
  const int64_t chunk = chunk_rows(rows, vocab);
  const bool gradient = wanted.dhidden || wanted.dweight;
  HeadResult result;
  result.losses.resize(static_cast<size_t>(rows));
  std::vector<double> square_norms(static_cast<size_t>(rows));
  if (wanted.dhidden) result.dhidden = at::empty_like(hidden);
  if (wanted.dweight) result.dweight = at::zeros_like(weight);
  at::Tensor buffer = at::empty({chunk, vocab}, weight.options());
  const int64_t* target = read<int64_t>(targets);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const at::Tensor h = hidden.narrow(0, begin, count).to(weight.scalar_type());
    at::Tensor logits = buffer.narrow(0, 0, count);
    at::mm_out(logits, h, weight.t());
    double* losses = result.losses.data() + begin;
    if (weight.scalar_type() == at::kDouble)
      cross_entropy<double>(logits, target + begin, gradient, losses, square_norms.data() + begin);
    else
      cross_entropy<float>(logits, target + begin, gradient, losses, square_norms.data() + begin);
    if (wanted.dhidden) {
      at::Tensor to = result.dhidden.narrow(0, begin, count);
      if (to.scalar_type() == weight.scalar_type())
        at::mm_out(to, logits, weight);
      else
        to.copy_(at::mm(logits, weight));
    }
    if (wanted.dweight) result.dweight.addmm_(logits.t(), h);
  }
  for (int64_t n = 0; n < rows; ++n) {
    if (target[n] < 0) continue;
    result.loss_sum += result.losses[static_cast<size_t>(n)];
    result.logit_norm_sum += std::sqrt(square_norms[static_cast<size_t>(n)]);
    ++result.count;
  }
  return result;
}

// The incoming gradient is a scalar; 1 needs no pass over memory.
at::Tensor scaled(const at::Tensor& gradient, double factor) {
  return factor == 1 ? gradient : gradient.mul_(factor);
}

class HeadFunction : public torch::autograd::Function<HeadFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& targets, Wanted wanted,
                            HeadLoss* loss) {
    const HeadResult result = run(hidden, weight, targets, wanted);
    loss->loss_sum_value = result.loss_sum;
    loss->logit_norm_sum = result.logit_norm_sum;
    loss->count = result.count;
    context->saved_data["dhidden"] = result.dhidden;
    context->saved_data["dweight"] = result.dweight;
    return at::scalar_tensor(result.loss_sum, weight.options());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const double factor = gradients[0].item().toDouble();
    at::Tensor dhidden = context->saved_data["dhidden"].toTensor();
    at::Tensor dweight = context->saved_data["dweight"].toTensor();
    context->saved_data.clear();  // scaled in place: usable once
    if (dhidden.defined()) dhidden = scaled(dhidden, factor);
    if (dweight.defined()) dweight = scaled(dweight, factor);
    return {dhidden, dweight, {}, {}, {}};
  }
};

struct HeadInputs {
  at::Tensor hidden, targets;  // [N, D], [N], contiguous
};

HeadInputs check(const char* op, const at::Tensor& hidden, const at::Tensor& weight,
                 const at::Tensor& targets) {
  require_parameter(op, "weight", weight, real_type(op, "hidden", hidden), hidden);
  if (weight.dim() != 2 || weight.size(1) != hidden.size(-1) || weight.size(0) < 1) {
    throw ShapeError(fmt::format("{}: weight is {}, expected [V, D] with D = {} of hidden {}", op,
                                 describe(weight), hidden.size(-1), describe(hidden)));
  }
  require_cpu(op, "targets", targets);
  if (targets.scalar_type() != at::kLong || targets.numel() != rows_of(hidden)) {
    throw ShapeError(fmt::format("{}: targets are {}, expected Long, one for each of {} rows", op,
                                 describe(targets), rows_of(hidden)));
  }
  const at::Tensor flat = targets.reshape({-1}).contiguous();
  const int64_t* target = read<int64_t>(flat);
  for (int64_t n = 0; n < flat.numel(); ++n) {
    if (target[n] == kIgnoredTarget || (target[n] >= 0 && target[n] < weight.size(0))) continue;
    throw ShapeError(fmt::format("{}: target {} at row {} lies outside the vocabulary of {}", op,
                                 target[n], n, weight.size(0)));
  }
  return {hidden.reshape({-1, hidden.size(-1)}).contiguous(), flat};
}

}  // namespace

HeadLoss head_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& targets) {
  const HeadInputs in = check("head_cross_entropy", hidden, weight, targets);
  Wanted wanted;
  if (at::GradMode::is_enabled()) wanted = {hidden.requires_grad(), weight.requires_grad()};
  HeadLoss loss;
  loss.loss_sum = HeadFunction::apply(in.hidden, weight.contiguous(), in.targets, wanted, &loss);
  return loss;
}

at::Tensor head_token_losses(const at::Tensor& hidden, const at::Tensor& weight,
                             const at::Tensor& targets) {
  const HeadInputs in = check("head_token_losses", hidden, weight, targets);
  const HeadResult result = run(in.hidden, weight.contiguous(), in.targets, {});
  at::Tensor losses = at::empty({in.targets.numel()}, at::kDouble);
  std::copy(result.losses.begin(), result.losses.end(), write<double>(losses));
  return losses.to(weight.scalar_type()).view(targets.sizes());
}

}  // namespace taper::ops
