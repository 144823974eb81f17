// The norms of a model by name and state, in execution order: for each layer the attention norm and
// the feed-forward norm, then the final norm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace taper {

enum class NormRole { kAttention, kFeedForward, kFinal };
enum class NormState { kPlain, kTapered, kFolded };
enum class TaperScope { kNone, kInternal, kFinal, kAll };

struct NormSite {
  std::string name;  // tensor prefix, "model.layers.3.input_layernorm"
  NormRole role;
  int64_t layer;  // -1 for the final norm

  std::string weight() const { return name + ".weight"; }              // gamma
  std::string taper_weight() const { return name + ".taper_weight"; }  // gamma~
  std::string taper_scale() const { return name + ".taper_scale"; }    // c, one element
};

std::vector<NormSite> norm_sites(const ModelConfig& config);
bool in_scope(const NormSite& site, TaperScope scope);

std::string_view to_string(TaperScope scope);
TaperScope parse_scope(std::string_view text, const std::string& where);  // ConfigError

// Names of the linear weights (out, in) that read the output of `site`: q, k, v; gate, up; or the
// head, which for a tied model is the token embedding.
std::vector<std::string> norm_consumers(const NormSite& site, const ModelConfig& config);

}  // namespace taper
