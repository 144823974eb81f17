// taper_rms_norm and the anchor loss over kernels/taper_norm.h.
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "kernels/taper_norm.h"
#include "train/ops/ops.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kBlockRows = 256;

struct NormParameters {
  double scale, gate, eps;
};

template <typename R>
TaperNormArgs<R> norm_args(const NormParameters& p, const at::Tensor& gamma,
                           const at::Tensor& gamma_t) {
  return {read<R>(gamma),          gamma_t.defined() ? read<R>(gamma_t) : nullptr,
          static_cast<R>(p.scale), static_cast<R>(p.gate),
          static_cast<R>(p.eps),   gamma.numel()};
}

const uint8_t* mask_bytes(const char* op, const at::Tensor& mask, int64_t rows) {
  if (!mask.defined()) return nullptr;
  require_cpu(op, "row_mask", mask);
  if ((mask.scalar_type() != at::kBool && mask.scalar_type() != at::kByte) ||
      mask.numel() != rows || !mask.is_contiguous()) {
    throw ShapeError(fmt::format("{}: row_mask is {}, expected {} contiguous Bool or Byte", op,
                                 describe(mask), rows));
  }
  return static_cast<const uint8_t*>(mask.const_data_ptr());
}

class TaperNormFunction : public torch::autograd::Function<TaperNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& h_in,
                            const at::Tensor& gamma_in, const std::optional<at::Tensor>& gamma_t_in,
                            NormParameters p, NormSums* sums, const at::Tensor* mask) {
    const at::Tensor h = h_in.contiguous(), gamma = gamma_in.contiguous();
    const at::Tensor gamma_t = gamma_t_in ? gamma_t_in->contiguous() : at::Tensor();
    at::Tensor y = at::empty_like(h);
    at::Tensor rstd;
    const RowBlocks blocks{rows_of(h), kBlockRows};
    if (p.gate != 0) rstd = at::empty({blocks.rows}, gamma.options());
    const uint8_t* bytes = mask_bytes("taper_rms_norm", *mask, blocks.rows);
    std::vector<TaperNormSums> partial(sums ? static_cast<size_t>(blocks.count()) : 0);
    dispatch(h.scalar_type(), [&]<typename T>() {
      using R = Real<T>;
      const TaperNormArgs<R> args = norm_args<R>(p, gamma, gamma_t);
      R* statistics = rstd.defined() ? write<R>(rstd) : nullptr;
      T* to = write<T>(y);
      blocks.parallel([&](int64_t i, Range rows) {
        taper_rms_norm_forward<T>(args, rows, read<T>(h), to, statistics,
                                  sums ? &partial[static_cast<size_t>(i)] : nullptr, bytes);
      });
    });
    for (const TaperNormSums& part : partial) {
      sums->numerator += part.numerator;
      sums->denominator += part.denominator;
      sums->scale += part.scale;
      sums->rows += part.rows;
    }
    context->save_for_backward({h, gamma, gamma_t, rstd});
    context->saved_data["scale"] = p.scale;
    context->saved_data["gate"] = p.gate;
    context->saved_data["eps"] = p.eps;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &h = saved[0], &gamma = saved[1], &gamma_t = saved[2], &rstd = saved[3];
    const NormParameters p{context->saved_data["scale"].toDouble(),
                           context->saved_data["gate"].toDouble(),
                           context->saved_data["eps"].toDouble()};
    const at::Tensor dy = gradients[0].contiguous();
    const RowBlocks blocks{rows_of(h), kBlockRows};
    at::Tensor dh = at::empty_like(h);
    // One row of partial sums a block, for gamma and gamma_t, added in order below.
    at::Tensor partial = at::zeros({2, blocks.count(), gamma.numel()}, gamma.options());
    dispatch(h.scalar_type(), [&]<typename T>() {
      using R = Real<T>;
      const TaperNormArgs<R> args = norm_args<R>(p, gamma, gamma_t);
      const R* statistics = rstd.defined() ? read<R>(rstd) : nullptr;
      R* dgamma = write<R>(partial);
      R* dgamma_t = dgamma + blocks.count() * args.width;
      T* to = write<T>(dh);
      blocks.parallel([&](int64_t i, Range rows) {
        taper_rms_norm_backward<T>(args, rows, read<T>(h), read<T>(dy), statistics, nullptr, to,
                                   dgamma + i * args.width, dgamma_t + i * args.width);
      });
    });
    const auto reduced = [&](int64_t which) {
      at::Tensor rows = partial[which];
      at::Tensor sum = at::zeros({gamma.numel()}, gamma.options());
      for (int64_t i = 0; i < blocks.count(); ++i) sum.add_(rows[i]);
      return sum;
    };
    at::Tensor dgamma_t;
    if (gamma_t.defined()) dgamma_t = reduced(1);
    return {dh, reduced(0), dgamma_t, {}, {}, {}};
  }
};

template <typename R>
void check_width(const char* op, const char* name, const at::Tensor& gamma, R width) {
  if (gamma.dim() != 1 || gamma.numel() != width) {
    throw ShapeError(fmt::format("{}: {} is {}, expected [{}] like the last dimension of h", op,
                                 name, describe(gamma), width));
  }
}

}  // namespace

at::Tensor taper_rms_norm(const at::Tensor& h, const at::Tensor& gamma, const at::Tensor& gamma_t,
                          double scale, double gate, double eps, NormSums* sums,
                          const at::Tensor& row_mask) {
  const char* op = "taper_rms_norm";
  const at::ScalarType real = real_type(op, "h", h);
  require_parameter(op, "gamma", gamma, real, h);
  check_width(op, "gamma", gamma, h.size(-1));
  if (!(gate >= 0 && gate <= 1))
    throw ConfigError(fmt::format("{}: gate {} lies outside [0, 1]", op, gate));
  if (gamma_t.defined()) {
    require_parameter(op, "gamma_t", gamma_t, real, h);
    check_width(op, "gamma_t", gamma_t, h.size(-1));
  } else if (gate != 1) {
    throw ShapeError(fmt::format("{}: gamma_t is undefined at gate {}", op, gate));
  }
  if (sums && gate == 0)
    throw ConfigError(fmt::format("{}: calibration sums need a gate above 0", op));
  // An undefined tensor must not reach autograd as an input.
  const auto given = gamma_t.defined() ? std::optional<at::Tensor>(gamma_t) : std::nullopt;
  return TaperNormFunction::apply(h, gamma, given, NormParameters{scale, gate, eps}, sums,
                                  &row_mask);
}

at::Tensor rms_norm(const at::Tensor& h, const at::Tensor& gamma, double eps) {
  return taper_rms_norm(h, gamma, {}, 0, 1, eps);
}

namespace {

// r of every row [N], in fp32 (double for double).
at::Tensor row_scales(const at::Tensor& h, double eps) {
  const RowBlocks blocks{rows_of(h), kBlockRows};
  at::Tensor r = at::empty({blocks.rows}, h.options().dtype(real_type("anchor_loss", "h", h)));
  dispatch(h.scalar_type(), [&]<typename T>() {
    Real<T>* to = write<Real<T>>(r);
    blocks.parallel([&](int64_t, Range rows) {
      residual_scale_rows<T>(rows, h.size(-1), static_cast<Real<T>>(eps), read<T>(h), to);
    });
  });
  return r;
}

struct ScaleSums {
  double scale = 0, squared_distance = 0;
  int64_t count = 0;
};

ScaleSums sum_scales(const at::Tensor& r, const uint8_t* mask, double target) {
  ScaleSums sums;
  dispatch(r.scalar_type(), [&]<typename R>() {
    if constexpr (!std::is_same_v<R, bf16>) {
      const R* values = read<R>(r);
      for (int64_t i = 0; i < r.numel(); ++i) {
        if (mask && !mask[i]) continue;
        const double value = values[i];
        sums.scale += value;
        sums.squared_distance += (value - target) * (value - target);
        ++sums.count;
      }
    }
  });
  return sums;
}

class AnchorFunction : public torch::autograd::Function<AnchorFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& h_in, double target,
                            double eps, const at::Tensor* mask, AnchorLoss* result) {
    const at::Tensor h = h_in.contiguous();
    const at::Tensor r = row_scales(h, eps);
    const ScaleSums sums = sum_scales(r, mask_bytes("anchor_loss", *mask, r.numel()), target);
    result->scale_sum = sums.scale;
    result->count = sums.count;
    context->save_for_backward({h, r, *mask});
    context->saved_data["target"] = target;
    return at::scalar_tensor(sums.squared_distance, r.options());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &h = saved[0], &r = saved[1], &mask = saved[2];
    const double weight = gradients[0].item().toDouble();
    const double target = context->saved_data["target"].toDouble();
    const RowBlocks blocks{r.numel(), kBlockRows};
    const uint8_t* bytes = mask_bytes("anchor_loss", mask, blocks.rows);
    at::Tensor dh = at::zeros_like(h);
    dispatch(h.scalar_type(), [&]<typename T>() {
      using R = Real<T>;
      T* to = write<T>(dh);
      blocks.parallel([&](int64_t, Range rows) {
        anchor_backward<T>(rows, h.size(-1), static_cast<R>(target), static_cast<R>(weight),
                           read<T>(h), read<R>(r), bytes, to);
      });
    });
    return {dh, {}, {}, {}, {}};
  }
};

}  // namespace

AnchorLoss anchor_loss(const at::Tensor& h, double target, double eps, const at::Tensor& row_mask) {
  real_type("anchor_loss", "h", h);
  AnchorLoss result;
  result.loss_sum = AnchorFunction::apply(h, target, eps, &row_mask, &result);
  return result;
}

ScaleSum residual_scale(const at::Tensor& h, double eps, const at::Tensor& row_mask) {
  const at::Tensor r = row_scales(h.detach().contiguous(), eps);
  const ScaleSums sums = sum_scales(r, mask_bytes("residual_scale", row_mask, r.numel()), 0);
  return {sums.scale, sums.count};
}

}  // namespace taper::ops
