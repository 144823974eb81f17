#include "train/optimizer.h"

#include <fmt/format.h>

namespace taper {

namespace {

std::span<float> part(std::span<float> all, Range range) {
  return all.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

bool is_matrix(const ParameterSlice& slice) { return slice.shape.size() > 1; }

}  // namespace

AdamW::AdamW(ModelParameters<float>& parameters, Range range, const AdamWOptions& options,
             ThreadPool& threads)
    : parameters_(parameters),
      range_(range),
      options_(options),
      threads_(threads),
      first_moments_(range.size() * static_cast<int64_t>(sizeof(float))),
      second_moments_(range.size() * static_cast<int64_t>(sizeof(float))) {}

std::span<float> AdamW::floats(const AlignedMemory& memory) const {
  return {reinterpret_cast<float*>(memory.data()), static_cast<size_t>(range_.size())};
}

std::span<float> AdamW::gradients() const { return part(parameters_.gradients(), range_); }

void AdamW::step(double learning_rate, double gradient_scale) {
  AdamWOptions update = options_;
  update.learning_rate = learning_rate;
  update.gradient_scale = gradient_scale;
  update.step = ++updates_;
  const auto& slices = parameters_.layout().slices();
  for (size_t first = 0; first < slices.size();) {
    Range run = slices[first].range;
    if (run.begin < range_.begin || run.end > range_.end) {
      ++first;
      continue;
    }
    // Neighbours with the same decay are one range.
    const bool decays = is_matrix(slices[first]);
    size_t next = first + 1;
    while (next < slices.size() && is_matrix(slices[next]) == decays &&
           slices[next].range.end <= range_.end)
      run.end = slices[next++].range.end;
    update.weight_decay = decays ? options_.weight_decay : 0;
    const Range moments{run.begin - range_.begin, run.end - range_.begin};
    adamw_update(threads_, update, part(parameters_.values(), run),
                 part(parameters_.gradients(), run), part(first_moments(), moments),
                 part(second_moments(), moments));
    first = next;
  }
}

double AdamW::squared_gradient_norm() const { return sum_of_squares(threads_, gradients()); }

std::string AdamW::first_bad_gradient() const {
  const int64_t index = first_non_finite(gradients().data(), range_.size());
  if (index < 0) return "";
  const ParameterSlice& slice = parameters_.layout().slice_at(range_.begin + index);
  return fmt::format("{}[{}]", slice.name, range_.begin + index - slice.range.begin);
}

}  // namespace taper
