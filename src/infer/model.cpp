#include "infer/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "core/error.h"

namespace taper {
namespace {

// The gate the norms run at: what the checkpoint says, or the override if its norms can follow it.
double choose_gate(const Checkpoint& checkpoint, const ModelOptions& options) {
  const TaperState& taper = checkpoint.taper();
  if (!options.gate) return taper.tapered.empty() ? 1.0 : taper.gate;
  const double gate = *options.gate;
  if (!(gate >= 0 && gate <= 1)) {
    throw ConfigError(fmt::format("gate {} lies outside [0, 1]", gate),
                      "1 is the ordinary norm, 0 the fully tapered one");
  }
  const bool plain = taper.tapered.empty() && taper.folded.empty();
  if (taper.tapered.empty() && !(plain && gate == 1)) {
    throw ConfigError(
        fmt::format("{}: gate {} needs tapered norms, and this model has none ({} folded)",
                    checkpoint.what(), gate, taper.folded.size()),
        plain ? "evaluate it without a gate, or taper it first with `taper train`"
              : "use the checkpoint it was folded from");
  }
  return gate;
}

}  // namespace

Model::Model(Checkpoint checkpoint, const ModelOptions& options)
    : checkpoint_(std::move(checkpoint)), gate_(choose_gate(checkpoint_, options)) {
  const Architecture architecture(config());
  const std::vector<NormSite> sites = norm_sites(config());
  layers_.resize(static_cast<size_t>(config().num_layers));
  auto site = sites.begin();
  for (const Part& part : architecture.parts())
    if (is_norm(part.place.slot))
      norm_at(part.place) = load_norm(*site++);
    else if (part.place.slot == Slot::kEmbedding)
      embedding_ = load(weight_name(config(), part.place), part.shape);
    else
      linear_at(part.place) = load_linear(part);
  if (config().tied_head) head_ = {embedding_, config().vocab_size, config().width};
}

Norm& Model::norm_at(Place place) {
  if (place.slot == Slot::kFinalNorm) return final_norm_;
  Layer& layer = layers_.at(static_cast<size_t>(place.layer));
  return place.slot == Slot::kAttentionNorm ? layer.attention_norm : layer.ffn_norm;
}

Linear& Model::linear_at(Place place) {
  if (place.slot == Slot::kHead) return head_;
  Layer& layer = layers_.at(static_cast<size_t>(place.layer));
  switch (place.slot) {
    case Slot::kQ:
      return layer.q;
    case Slot::kK:
      return layer.k;
    case Slot::kV:
      return layer.v;
    case Slot::kAttentionOut:
      return layer.o;
    case Slot::kGate:
      return layer.gate;
    case Slot::kUp:
      return layer.up;
    default:
      TAPER_CHECK(place.slot == Slot::kDown);
      return layer.down;
  }
}

const float* Model::load(const std::string& name, std::vector<int64_t> shape) {
  const TensorView& tensor = checkpoint_.tensors().at(name);
  if (tensor.shape != shape) {
    throw ShapeError(fmt::format("{}: {} has shape [{}], expected [{}]", checkpoint_.what(), name,
                                 fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  }
  const std::byte* data = tensor.data.data();
  const bool aligned = reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
  if (tensor.dtype == DType::kF32 && aligned) return reinterpret_cast<const float*>(data);
  return owned_.emplace_back(to_float32(tensor)).data();
}

Linear Model::load_linear(const Part& part) {
  return {load(weight_name(config(), part.place), part.shape), part.shape[0], part.shape[1]};
}

Norm Model::load_norm(const NormSite& site) {
  const int64_t width = config().width;
  Norm norm{.site = site};
  TaperNormArgs<float>& args = norm.args;
  // The gate in the kernel's precision, so that the form is what the kernel computes.
  const bool tapered = checkpoint_.norm_state(site) == NormState::kTapered;
  args.gate = tapered ? static_cast<float>(gate_) : 1.0f;
  args.eps = static_cast<float>(config().norm_eps);
  args.width = width;
  norm.form = norm_form(checkpoint_.norm_state(site), static_cast<double>(args.gate));
  if (norm.form == NormForm::kPlain || norm.form == NormForm::kBlend)
    args.gamma = load(site.weight(), {width});
  if (norm.form == NormForm::kFixedScale || norm.form == NormForm::kBlend) {
    args.gamma_t = load(site.taper_weight(), {width});
    args.scale = *load(site.taper_scale(), {1});
    if (!std::isfinite(args.scale)) {
      throw NumericsError(fmt::format("{}: {} is {}, expected a finite number", checkpoint_.what(),
                                      site.taper_scale(), args.scale));
    }
  }
  return norm;
}

int64_t Model::weight_bytes_per_token() const {
  const auto elements = [](const Linear& linear) { return linear.out * linear.in; };
  const auto norm_rows = [](const Norm& norm) -> int64_t {
    return (norm.args.gamma != nullptr) + (norm.args.gamma_t != nullptr);
  };
  int64_t total = elements(head_) + config().width * (1 + norm_rows(final_norm_));
  for (const Layer& layer : layers_) {
    for (const Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      total += elements(*linear);
    total += config().width * (norm_rows(layer.attention_norm) + norm_rows(layer.ffn_norm));
  }
  return total * static_cast<int64_t>(sizeof(float));
}

}  // namespace taper
