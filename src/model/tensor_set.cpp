#include "model/tensor_set.h"

#include <algorithm>

#include "core/error.h"

namespace taper {

std::span<float> TensorSet::add(std::string name, std::vector<int64_t> shape) {
  TensorView view{std::move(name), DType::kF32, std::move(shape), {}};
  std::vector<float>& values = owned_.emplace_back(static_cast<size_t>(view.num_elements()));
  view.data = std::as_bytes(std::span(values));
  views_.push_back(std::move(view));
  return values;
}

const TensorView* TensorSet::find(std::string_view name) const {
  const auto it = std::find_if(views_.begin(), views_.end(),
                               [&](const TensorView& view) { return view.name == name; });
  return it == views_.end() ? nullptr : &*it;
}

const TensorView& TensorSet::at(std::string_view name) const {
  const TensorView* view = find(name);
  TAPER_CHECK(view != nullptr);
  return *view;
}

int64_t TensorSet::num_bytes() const {
  int64_t bytes = 0;
  for (const TensorView& view : views_) bytes += static_cast<int64_t>(view.data.size());
  return bytes;
}

}  // namespace taper
