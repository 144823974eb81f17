#include "model/norm_sites.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "model/names.h"

namespace taper {
namespace {

constexpr std::array<std::pair<TaperScope, std::string_view>, 4> kScopes = {
    {{TaperScope::kNone, "none"},
     {TaperScope::kInternal, "internal"},
     {TaperScope::kFinal, "final"},
     {TaperScope::kAll, "all"}}};

}  // namespace

NormForm norm_form(NormState state, double gate) {
  TAPER_CHECK(gate >= 0 && gate <= 1);
  if (state == NormState::kFolded) return NormForm::kIdentity;
  if (state == NormState::kPlain || gate == 1) return NormForm::kPlain;
  return gate == 0 ? NormForm::kFixedScale : NormForm::kBlend;
}

std::vector<NormSite> norm_sites(const ModelConfig& config) {
  const NameTable& names = checkpoint_names(config);
  std::vector<NormSite> sites;
  const Architecture architecture(config);
  for (const Place& place : architecture.norms())
    sites.push_back({static_cast<int>(sites.size()), place, names.name(place)});
  return sites;
}

bool in_scope(const NormSite& site, TaperScope scope) {
  switch (scope) {
    case TaperScope::kNone:
      return false;
    case TaperScope::kInternal:
      return !site.is_final();
    case TaperScope::kFinal:
      return site.is_final();
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

}  // namespace taper
