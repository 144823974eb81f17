#include "model/norm_sites.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/error.h"

namespace taper {
namespace {

constexpr std::array<std::pair<TaperScope, std::string_view>, 4> kScopes = {
    {{TaperScope::kNone, "none"},
     {TaperScope::kInternal, "internal"},
     {TaperScope::kFinal, "final"},
     {TaperScope::kAll, "all"}}};

}  // namespace

std::vector<NormSite> norm_sites(const ModelConfig& config) {
  std::vector<NormSite> sites;
  sites.reserve(static_cast<size_t>(2 * config.num_layers + 1));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    sites.push_back({prefix + "input_layernorm", NormRole::kAttention, layer});
    sites.push_back({prefix + "post_attention_layernorm", NormRole::kFeedForward, layer});
  }
  sites.push_back({"model.norm", NormRole::kFinal, -1});
  return sites;
}

bool in_scope(const NormSite& site, TaperScope scope) {
  const bool final_norm = site.role == NormRole::kFinal;
  switch (scope) {
    case TaperScope::kNone:
      return false;
    case TaperScope::kInternal:
      return !final_norm;
    case TaperScope::kFinal:
      return final_norm;
    case TaperScope::kAll:
      return true;
  }
  TAPER_CHECK(false);
  return false;
}

std::string_view to_string(TaperScope scope) {
  for (const auto& [value, name] : kScopes)
    if (value == scope) return name;
  TAPER_CHECK(false);
  return {};
}

TaperScope parse_scope(std::string_view text, const std::string& where) {
  for (const auto& [value, name] : kScopes)
    if (name == text) return value;
  throw ConfigError(
      fmt::format("{}: unknown scope \"{}\" (known: none, internal, final, all)", where, text));
}

std::vector<std::string> norm_consumers(const NormSite& site, const ModelConfig& config) {
  const std::string layer = fmt::format("model.layers.{}.", site.layer);
  switch (site.role) {
    case NormRole::kAttention:
      return {layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
              layer + "self_attn.v_proj.weight"};
    case NormRole::kFeedForward:
      return {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"};
    case NormRole::kFinal:
      return {config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight"};
  }
  TAPER_CHECK(false);
  return {};
}

}  // namespace taper
