#include "train/optimizer.h"

#include <fmt/format.h>

#include "train/ops/optimizer.h"

namespace taper {

namespace {

std::span<float> span_of(const torch::Tensor& flat, int64_t offset, int64_t count) {
  return {flat.data_ptr<float>() + offset, static_cast<size_t>(count)};
}

std::span<const float> all_of(const torch::Tensor& flat) { return span_of(flat, 0, flat.numel()); }

}  // namespace

AdamW::AdamW(ParameterBuffer& parameters, const OptimizerOptions& options)
    : parameters_(parameters),
      options_(options),
      first_moments_(torch::zeros_like(parameters.values())),
      second_moments_(torch::zeros_like(parameters.values())) {}

void AdamW::step(double learning_rate, double gradient_scale) {
  ops::AdamWOptions update{learning_rate,  options_.beta1, options_.beta2, options_.eps, 0,
                           gradient_scale, ++updates_};
  const auto& slices = parameters_.slices();
  // Neighbouring slices with the same decay are one range.
  for (size_t first = 0; first < slices.size();) {
    const auto decays = [&](size_t i) {
      return options_.weight_decay > 0 && slices[i].spec.shape.size() > 1;
    };
    size_t last = first;
    while (last + 1 < slices.size() && decays(last + 1) == decays(first)) ++last;
    const int64_t begin = slices[first].offset;
    const int64_t count = slices[last].offset + slices[last].size() - begin;
    update.weight_decay = decays(first) ? options_.weight_decay : 0;
    ops::adamw_update(update, span_of(parameters_.values(), begin, count),
                      span_of(parameters_.gradients(), begin, count),
                      span_of(first_moments_, begin, count),
                      span_of(second_moments_, begin, count));
    first = last + 1;
  }
}

double AdamW::squared_gradient_norm() const {
  return ops::sum_of_squares(all_of(parameters_.gradients()));
}

std::string AdamW::first_bad_gradient() const {
  const int64_t index = ops::first_non_finite(all_of(parameters_.gradients()));
  if (index < 0) return "";
  const auto& slice = parameters_.slice_at(index);
  return fmt::format("{}[{}]", slice.spec.name, index - slice.offset);
}

void AdamW::clear_gradients() { parameters_.gradients().zero_(); }

}  // namespace taper
