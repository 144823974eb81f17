#include "train/ops/optimizer.h"

#include <vector>

#include "kernels/adamw.h"
#include "train/ops/support.h"

namespace taper::ops {
namespace {

constexpr int64_t kBlockElements = 1 << 15;

}  // namespace

void adamw_update(const AdamWOptions& options, std::span<float> parameters,
                  std::span<float> gradients, std::span<float> first_moments,
                  std::span<float> second_moments) {
  TAPER_CHECK(parameters.size() == gradients.size());
  TAPER_CHECK(parameters.size() == first_moments.size());
  TAPER_CHECK(parameters.size() == second_moments.size());
  const AdamWArgs args{parameters.data(),      gradients.data(),      first_moments.data(),
                       second_moments.data(),  options.learning_rate, options.beta1,
                       options.beta2,          options.eps,           options.weight_decay,
                       options.gradient_scale, options.step,          options.clear_gradients};
  RowBlocks{static_cast<int64_t>(parameters.size()), kBlockElements}.parallel(
      [&](int64_t, Range elements) { adamw_range(args, elements); });
}

double sum_of_squares(std::span<const float> values) {
  const RowBlocks blocks{static_cast<int64_t>(values.size()), kBlockElements};
  std::vector<double> partial(static_cast<size_t>(blocks.count()));
  blocks.parallel([&](int64_t i, Range elements) {
    partial[static_cast<size_t>(i)] =
        taper::sum_of_squares(values.data() + elements.begin, elements.end - elements.begin);
  });
  double sum = 0;
  for (double part : partial) sum += part;
  return sum;
}

int64_t first_non_finite(std::span<const float> values) {
  return taper::first_non_finite(values.data(), static_cast<int64_t>(values.size()));
}

}  // namespace taper::ops
