#include "train/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "core/error.h"
#include "core/random.h"
#include "model/names.h"

namespace taper {

namespace {

// Elements to which gamma~ is aligned: a cache line.
constexpr int64_t kAlignment = 16;

uint64_t name_stream(const std::string& name) {  // FNV-1a, 64 bits
  uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ParameterLayout::ParameterLayout(const Architecture& architecture, TaperScope scope,
                                 const std::vector<std::string>& folded) {
  const NameTable& names = checkpoint_names(architecture.config());
  for (NormSite& site : norm_sites(architecture.config())) {
    const bool gone = is_in(folded, site.name);
    norms_.push_back({site, gone, !gone && in_scope(site, scope)});
  }
  const auto add = [&](std::string name, Place place, std::vector<int64_t> shape, int64_t size) {
    slices_.push_back({std::move(name), place, std::move(shape), {size_, size_ + size}});
    size_ += size;
    return slices_.back().range.begin;
  };
  auto norm = norms_.begin();
  for (const Part& part : architecture.parts()) {
    const bool is_a_norm = is_norm(part.place.slot);
    if (is_a_norm && norm++->folded) continue;
    const int64_t at = add(names.name(part.place) + ".weight", part.place, part.shape, part.size());
    if (is_a_norm) std::prev(norm)->gamma = at;
  }
  weights_end_ = size_;
  gamma_t_begin_ = size_ = num_blocks(size_, kAlignment) * kAlignment;
  for (Norm& each : norms_) {
    const int64_t width = architecture.config().width;
    if (each.in_scope)
      each.gamma_t = add(each.site.taper_weight(), each.site.place, {width}, width);
  }
}

const ParameterSlice& ParameterLayout::slice_at(int64_t element) const {
  const auto after =
      std::upper_bound(slices_.begin(), slices_.end(), element,
                       [](int64_t e, const ParameterSlice& s) { return e < s.range.begin; });
  TAPER_CHECK(after != slices_.begin() && element < size_);
  return *std::prev(after);
}

int64_t ParameterLayout::offset(Place place) const {
  const auto it = std::find_if(slices_.begin(), slices_.end(),
                               [&](const ParameterSlice& slice) { return slice.place == place; });
  TAPER_CHECK(it != slices_.end());
  return it->range.begin;
}

template <typename R>
ModelParameters<R>::ModelParameters(const ModelConfig& config, TaperScope scope,
                                    const std::vector<std::string>& folded)
    : architecture_(config),
      layout_(architecture_, scope, folded),
      values_(layout_.size() * static_cast<int64_t>(sizeof(R))),
      gradients_(layout_.size() * static_cast<int64_t>(sizeof(R))),
      scales_(layout_.norms().size()) {}

template <typename R>
void ModelParameters<R>::initialize(double std, bool scale_residual, uint64_t seed) {
  const double residual_std =
      scale_residual ? std / std::sqrt(2.0 * static_cast<double>(config().num_layers)) : std;
  for (const ParameterSlice& slice : layout_.slices()) {
    if (slice.range.begin >= layout_.gamma_t().begin) break;
    R* value = values().data() + slice.range.begin;
    if (is_norm(slice.place.slot)) {
      std::fill_n(value, slice.range.size(), R{1});
      continue;
    }
    const bool residual =
        slice.place.slot == Slot::kAttentionOut || slice.place.slot == Slot::kDown;
    const double deviation = residual ? residual_std : std;
    Random random(seed, name_stream(slice.name));
    for (int64_t i = 0; i < slice.range.size(); ++i)
      value[i] = static_cast<R>(deviation * random.normal());
  }
}

template <typename R>
void ModelParameters<R>::load(const Checkpoint& checkpoint) {
  const bool tapered = !checkpoint.taper().tapered.empty();
  const TensorSet& tensors = checkpoint.tensors();
  for (const ParameterSlice& slice : layout_.slices()) {
    if (!tapered && slice.range.begin >= layout_.gamma_t().begin) break;
    const TensorView* tensor = tensors.find(slice.name);
    if (!tensor)
      throw FormatError(fmt::format("{}: has no tensor {}", checkpoint.what(), slice.name),
                        "the checkpoint belongs to a model with other norms");
    if (tensor->shape != slice.shape)
      throw ShapeError(
          fmt::format("{}: tensor {} has shape [{}], expected [{}]", checkpoint.what(),
                      tensor->name, fmt::join(tensor->shape, ", "), fmt::join(slice.shape, ", ")),
          "the checkpoint belongs to a model of another shape");
    const std::vector<float> data = to_float32(*tensor);
    std::copy(data.begin(), data.end(), values().data() + slice.range.begin);
  }
  if (!tapered) return;
  for (const ParameterLayout::Norm& norm : layout_.norms())
    if (norm.in_scope)
      scales_.at(static_cast<size_t>(norm.site.index)) =
          to_float32(tensors.at(norm.site.taper_scale())).at(0);
  taper_begun_ = true;
}

template <typename R>
void ModelParameters<R>::begin_taper(std::span<const double> scales) {
  TAPER_CHECK(!taper_begun_ && scales.size() == scales_.size());
  for (const ParameterLayout::Norm& norm : layout_.norms()) {
    if (!norm.in_scope) continue;
    const auto index = static_cast<size_t>(norm.site.index);
    scales_[index] = static_cast<R>(scales[index]);
    std::copy_n(values().data() + norm.gamma, config().width, values().data() + norm.gamma_t);
  }
  taper_begun_ = true;
}

template <typename R>
void ModelParameters<R>::clear_gradients(ThreadPool& team) {
  constexpr int64_t kGrain = 1 << 15;
  team.run(layout_.size(), kGrain, [&](Range range) {
    std::memset(gradients().data() + range.begin, 0, sizeof(R) * static_cast<size_t>(range.size()));
  });
}

template <typename R>
NormState ModelParameters<R>::norm_state(int norm) const {
  const ParameterLayout::Norm& at = layout_.norms().at(static_cast<size_t>(norm));
  if (at.folded) return NormState::kFolded;
  return at.in_scope && taper_begun_ ? NormState::kTapered : NormState::kPlain;
}

template <typename R>
std::vector<std::string> ModelParameters<R>::tapered_names() const {
  std::vector<std::string> names;
  for (const ParameterLayout::Norm& norm : layout_.norms())
    if (norm_state(norm.site.index) == NormState::kTapered) names.push_back(norm.site.name);
  return names;
}

template <typename R>
std::vector<TensorView> ModelParameters<R>::tensor_views() const {
  const DType type = std::is_same_v<R, float> ? DType::kF32 : DType::kF64;
  const auto bytes = [](const R* from, int64_t count) {
    return std::as_bytes(std::span<const R>(from, static_cast<size_t>(count)));
  };
  std::vector<TensorView> views;
  for (const ParameterSlice& slice : layout_.slices()) {
    if (!taper_begun_ && slice.range.begin >= layout_.gamma_t().begin) break;
    views.push_back({slice.name, type, slice.shape,
                     bytes(values().data() + slice.range.begin, slice.range.size())});
  }
  for (const ParameterLayout::Norm& norm : layout_.norms())
    if (norm_state(norm.site.index) == NormState::kTapered)
      views.push_back({norm.site.taper_scale(),
                       type,
                       {1},
                       bytes(&scales_[static_cast<size_t>(norm.site.index)], 1)});
  return views;
}

template class ModelParameters<float>;
template class ModelParameters<double>;

}  // namespace taper
