#include "train/nn/transformer.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace taper {

namespace {

uint64_t name_stream(const std::string& name) {  // FNV-1a, 64 bits
  uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

bool ends_with(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.ends_with(suffix);
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, TaperScope scope,
                         const std::vector<std::string>& folded, torch::Dtype dtype)
    : config_(config) {
  const int64_t width = config.width, q = config.q_width(), kv = config.kv_width();
  embedding_ = parameters_.add({{"model.embed_tokens.weight", {config.vocab_size, width}}});
  const auto sites = norm_sites(config);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    Block block;
    block.attention_norm = add_norm(sites[static_cast<size_t>(2 * layer)], folded, scope);
    block.qkv = parameters_.add({{attention + "q_proj.weight", {q, width}},
                                 {attention + "k_proj.weight", {kv, width}},
                                 {attention + "v_proj.weight", {kv, width}}});
    block.out = parameters_.add({{attention + "o_proj.weight", {width, q}}});
    block.ffn_norm = add_norm(sites[static_cast<size_t>(2 * layer + 1)], folded, scope);
    block.gate_up = parameters_.add({{mlp + "gate_proj.weight", {config.ffn_width, width}},
                                     {mlp + "up_proj.weight", {config.ffn_width, width}}});
    block.down = parameters_.add({{mlp + "down_proj.weight", {width, config.ffn_width}}});
    blocks_.push_back(std::move(block));
  }
  final_norm_ = add_norm(sites.back(), folded, scope);
  head_ = config.tied_head ? embedding_
                           : parameters_.add({{"lm_head.weight", {config.vocab_size, width}}});
  parameters_.allocate(dtype);
  taper_parameters_.allocate(dtype);
  const auto rope = ops::rope_tables(config.context, config.head_width, config.rope_theta, dtype);
  rope_cos_ = rope.cos;
  rope_sin_ = rope.sin;
}

Transformer::Norm Transformer::add_norm(const NormSite& site,
                                        const std::vector<std::string>& folded, TaperScope scope) {
  Norm norm;
  norm.site = site;
  norm.folded = std::find(folded.begin(), folded.end(), site.name) != folded.end();
  if (norm.folded) return norm;
  norm.gamma = parameters_.add({{site.weight(), {config_.width}}});
  norm.in_scope = taper::in_scope(site, scope);
  if (norm.in_scope) norm.gamma_t = taper_parameters_.add({{site.taper_weight(), {config_.width}}});
  return norm;
}

template <typename Visit>
void Transformer::for_each_norm(Visit visit) {
  for (auto& block : blocks_) {
    visit(block.attention_norm);
    visit(block.ffn_norm);
  }
  visit(final_norm_);
}

void Transformer::initialize(double std, bool scale_residual, uint64_t seed) {
  torch::NoGradGuard no_grad;
  const double residual_std =
      scale_residual ? std / std::sqrt(2.0 * static_cast<double>(config_.num_layers)) : std;
  for (const auto& slice : parameters_.slices()) {
    torch::Tensor value = parameters_.value(slice);
    if (slice.spec.shape.size() == 1) {
      value.fill_(1);
      continue;
    }
    const bool residual = ends_with(slice.spec.name, "o_proj.weight") ||
                          ends_with(slice.spec.name, "down_proj.weight");
    const double deviation = residual ? residual_std : std;
    Random random(seed, name_stream(slice.spec.name));
    torch::Tensor draws = torch::empty({slice.size()}, torch::kFloat64);
    double* out = draws.data_ptr<double>();
    for (int64_t i = 0; i < slice.size(); ++i) out[i] = deviation * random.normal();
    value.copy_(draws.view(slice.spec.shape));
  }
}

void Transformer::load(const Checkpoint& checkpoint) {
  torch::NoGradGuard no_grad;
  parameters_.load(checkpoint.tensors());
  if (checkpoint.taper().tapered.empty()) return;
  taper_parameters_.load(checkpoint.tensors());
  for_each_norm([&](Norm& norm) {
    if (norm.in_scope)
      norm.scale = to_float32(checkpoint.tensors().at(norm.site.taper_scale())).at(0);
  });
  taper_begun_ = true;
}

void Transformer::begin_taper(const std::map<std::string, double>& scales) {
  torch::NoGradGuard no_grad;
  TAPER_CHECK(!taper_begun_);
  for_each_norm([&](Norm& norm) {
    if (!norm.in_scope) return;
    norm.scale = static_cast<float>(scales.at(norm.site.name));
    taper_parameters_.leaf(norm.gamma_t).copy_(parameters_.leaf(norm.gamma));
  });
  taper_begun_ = true;
}

torch::Tensor Transformer::apply(Norm& norm, const torch::Tensor& h, const ForwardOptions& options,
                                 const torch::Tensor& mask) {
  if (norm.folded) return h;
  const torch::Tensor gamma = parameters_.leaf(norm.gamma);
  ops::NormSums* sums = options.calibrate && norm.in_scope ? &norm.sums : nullptr;
  if (!norm.in_scope || !taper_begun_)
    return ops::taper_rms_norm(h, gamma, {}, 0, 1, config_.norm_eps, sums, mask);
  return ops::taper_rms_norm(h, gamma, taper_parameters_.leaf(norm.gamma_t), norm.scale,
                             options.gate, config_.norm_eps);
}

torch::Tensor Transformer::residual_stream(const torch::Tensor& ids_BT,
                                           const ForwardOptions& options,
                                           const torch::Tensor& mask) {
  const int64_t batch = ids_BT.size(0), time = ids_BT.size(1);
  if (time > config_.context)
    throw ShapeError(fmt::format("a window of {} tokens exceeds the model's context of {}", time,
                                 config_.context),
                     "lower train.window or --context");
  torch::Tensor h = ops::embedding(ids_BT.reshape({-1}), parameters_.leaf(embedding_));
  for (auto& block : blocks_) {
    torch::Tensor x = apply(block.attention_norm, h, options, mask);
    torch::Tensor qkv = ops::linear(x, parameters_.leaf(block.qkv));
    torch::Tensor mixed = ops::causal_attention(qkv.view({batch, time, -1}), config_.num_heads,
                                                config_.num_kv_heads, rope_cos_, rope_sin_);
    h = h + ops::linear(mixed.view({batch * time, -1}), parameters_.leaf(block.out));
    x = apply(block.ffn_norm, h, options, mask);
    torch::Tensor hidden = ops::swiglu(ops::linear(x, parameters_.leaf(block.gate_up)));
    h = h + ops::linear(hidden, parameters_.leaf(block.down));
  }
  return h;
}

ForwardResult Transformer::forward(const torch::Tensor& ids_BT, const torch::Tensor& targets_BT,
                                   const ForwardOptions& options) {
  ForwardResult result;
  torch::Tensor mask;  // rows that count in the statistics; undefined: all
  if (options.skip_first_position) {
    mask = torch::ones_like(ids_BT, torch::kBool);
    mask.select(1, 0).fill_(false);
    mask = mask.reshape({-1});
  }
  const torch::Tensor h = residual_stream(ids_BT, options, mask);
  if (options.anchor_target) {
    ops::AnchorLoss anchor = ops::anchor_loss(h, *options.anchor_target, config_.norm_eps, mask);
    result.anchor_sum = anchor.loss_sum;
    result.scale = {anchor.scale_sum, anchor.count};
  } else {
    result.scale = ops::residual_scale(h, config_.norm_eps, mask);
  }
  const torch::Tensor x = apply(final_norm_, h, options, mask);
  ops::HeadLoss head =
      ops::head_cross_entropy(x, parameters_.leaf(head_), targets_BT.reshape({-1}));
  result.loss_sum = head.loss_sum;
  result.loss_value = head.loss_sum_value;
  result.logit_norm_sum = head.logit_norm_sum;
  result.count = head.count;
  return result;
}

torch::Tensor Transformer::logits(const torch::Tensor& ids_BT, double gate) {
  ForwardOptions options;
  options.gate = gate;
  const torch::Tensor x = apply(final_norm_, residual_stream(ids_BT, options, {}), options, {});
  return ops::linear(x, parameters_.leaf(head_))
      .view({ids_BT.size(0), ids_BT.size(1), config_.vocab_size});
}

FusedParameters Transformer::fused_parameters(bool calibrate) {
  const auto leaf = [](const ParameterBuffer& buffer, int64_t index) -> FusedLeaf {
    const torch::Tensor value = buffer.leaf(index);
    return {value.data_ptr<float>(), value.grad().data_ptr<float>()};
  };
  const auto norm = [&](Norm& from) {
    FusedNorm to;
    to.folded = from.folded;
    if (from.folded) return to;
    to.gamma = leaf(parameters_, from.gamma);
    if (!from.in_scope) return to;
    if (taper_begun_) to.gamma_t = leaf(taper_parameters_, from.gamma_t);
    to.scale = from.scale;
    if (calibrate) to.sums = &from.sums;
    return to;
  };
  FusedParameters parameters;
  parameters.embedding = leaf(parameters_, embedding_);
  for (Block& block : blocks_)
    parameters.blocks.push_back({norm(block.attention_norm), norm(block.ffn_norm),
                                 leaf(parameters_, block.qkv), leaf(parameters_, block.out),
                                 leaf(parameters_, block.gate_up), leaf(parameters_, block.down)});
  parameters.final_norm = norm(final_norm_);
  parameters.head = leaf(parameters_, head_);
  const auto gradients = [](const ParameterBuffer& buffer) {
    return std::span<float>(buffer.gradients().data_ptr<float>(),
                            static_cast<size_t>(buffer.size()));
  };
  parameters.gradients = gradients(parameters_);
  parameters.taper_gradients = gradients(taper_parameters_);
  return parameters;
}

std::map<std::string, ops::NormSums> Transformer::take_sums() {
  std::map<std::string, ops::NormSums> sums;
  for_each_norm([&](Norm& norm) {
    if (norm.in_scope) sums[norm.site.name] = std::exchange(norm.sums, ops::NormSums{});
  });
  return sums;
}

std::vector<TensorView> Transformer::tensor_views() const {
  std::vector<TensorView> views;
  parameters_.append_views(views);
  if (!taper_begun_) return views;
  taper_parameters_.append_views(views);
  const auto append_scale = [&](const Norm& norm) {
    if (norm.in_scope)
      views.push_back({norm.site.taper_scale(),
                       DType::kF32,
                       {1},
                       std::as_bytes(std::span<const float>(&norm.scale, 1))});
  };
  for (const auto& block : blocks_) {
    append_scale(block.attention_norm);
    append_scale(block.ffn_norm);
  }
  append_scale(final_norm_);
  return views;
}

std::vector<std::string> Transformer::tapered_names() const {
  std::vector<std::string> names;
  if (!taper_begun_) return names;
  const_cast<Transformer*>(this)->for_each_norm([&](const Norm& norm) {
    if (norm.in_scope) names.push_back(norm.site.name);
  });
  return names;
}

double Transformer::scale_of(const std::string& name) const {
  double scale = 0;
  const_cast<Transformer*>(this)->for_each_norm([&](const Norm& norm) {
    if (norm.site.name == name) scale = norm.scale;
  });
  return scale;
}

}  // namespace taper
