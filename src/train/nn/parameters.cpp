#include "train/nn/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace taper {

namespace {

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

int64_t ParameterBuffer::Slice::size() const { return product(spec.shape); }

int64_t ParameterBuffer::add(std::vector<TensorSpec> parts) {
  TAPER_CHECK(!parts.empty() && !values_.defined());
  Leaf leaf{parts.front().shape, size_};
  leaf.shape[0] = 0;
  for (auto& part : parts) {
    leaf.shape[0] += part.shape[0];
    slices_.push_back({std::move(part), size_});
    size_ += slices_.back().size();
  }
  layout_.push_back(std::move(leaf));
  return static_cast<int64_t>(layout_.size()) - 1;
}

void ParameterBuffer::allocate(torch::Dtype dtype) {
  values_ = torch::zeros({size_}, dtype);
  gradients_ = torch::zeros({size_}, dtype);
  for (const auto& leaf : layout_) {
    const auto view = [&](const torch::Tensor& flat) {
      return flat.narrow(0, leaf.offset, product(leaf.shape)).view(leaf.shape);
    };
    torch::Tensor tensor = view(values_).detach().requires_grad_(true);
    tensor.mutable_grad() = view(gradients_);
    leaves_.push_back(std::move(tensor));
  }
}

torch::Tensor ParameterBuffer::value(const Slice& slice) const {
  return values_.narrow(0, slice.offset, slice.size()).view(slice.spec.shape);
}

const ParameterBuffer::Slice& ParameterBuffer::slice_at(int64_t element) const {
  TAPER_CHECK(element >= 0 && element < size_);
  const auto after = std::upper_bound(slices_.begin(), slices_.end(), element,
                                      [](int64_t e, const Slice& s) { return e < s.offset; });
  return *std::prev(after);
}

void ParameterBuffer::append_views(std::vector<TensorView>& out) const {
  TAPER_CHECK(values_.scalar_type() == torch::kFloat32);
  const float* base = values_.data_ptr<float>();
  for (const auto& slice : slices_) {
    const auto count = static_cast<size_t>(slice.size());
    out.push_back({slice.spec.name, DType::kF32, slice.spec.shape,
                   std::as_bytes(std::span<const float>(base + slice.offset, count))});
  }
}

void ParameterBuffer::load(const SafetensorsFile& file) {
  for (const auto& slice : slices_) {
    const TensorView& tensor = file.at(slice.spec.name);
    if (tensor.shape != slice.spec.shape)
      throw ShapeError(fmt::format("{}: tensor {} has shape [{}], expected [{}]",
                                   file.path().string(), tensor.name, fmt::join(tensor.shape, ", "),
                                   fmt::join(slice.spec.shape, ", ")),
                       "the checkpoint belongs to a model of another shape");
    std::vector<float> data = to_float32(tensor);
    value(slice).copy_(torch::from_blob(data.data(), slice.spec.shape, torch::kFloat32));
  }
}

}  // namespace taper
