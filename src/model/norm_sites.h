// The norms of a model by name and state, in execution order (Architecture::norms).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace taper {

enum class NormState { kPlain, kTapered, kFolded };
enum class TaperScope { kNone, kInternal, kFinal, kAll };

// What a norm computes on a row h when the model runs, r = sqrt(mean(h^2) + eps) (method.md,
// section 1).
enum class NormForm {
  kIdentity,    // y = h: the weights that read it have absorbed it
  kPlain,       // y = h / r * gamma
  kBlend,       // y = g * h / r * gamma + (1 - g) * c * h * gamma~
  kFixedScale,  // y = c * h * gamma~, no statistic
};
// The form of a norm in `state` when tapered norms run at `gate` in [0, 1]; a plain or folded one
// does not follow the gate.
NormForm norm_form(NormState state, double gate);

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
