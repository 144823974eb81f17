// The norms of a model by name and state, in execution order (Architecture::norms).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace taper {

enum class NormState { kPlain, kTapered, kFolded };
enum class TaperScope { kNone, kInternal, kFinal, kAll };

struct NormSite {
  int index;  // Architecture::norms()
  Place place;
  std::string name;  // tensor prefix, "model.layers.3.input_layernorm"

  bool is_final() const { return place.slot == Slot::kFinalNorm; }

  std::string weight() const { return name + ".weight"; }              // gamma
  std::string taper_weight() const { return name + ".taper_weight"; }  // gamma~
  std::string taper_scale() const { return name + ".taper_scale"; }    // c, one element
};

std::vector<NormSite> norm_sites(const ModelConfig& config);
bool in_scope(const NormSite& site, TaperScope scope);

std::string_view to_string(TaperScope scope);
TaperScope parse_scope(std::string_view text, const std::string& where);  // ConfigError

}  // namespace taper
