// taper.json, both ways, and the rules its content obeys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/error.h"
#include "model/checkpoint.h"
#include "model/names.h"

namespace taper {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::array<std::string_view, 5> kPhases = {"plain", "warmup", "taper", "settle",
                                                     "folded"};

Json to_json(const EmaState& state) { return {{"value", state.value}, {"updates", state.updates}}; }

EmaState ema_from_json(const Json& json, const std::string& what) {
  if (!json.is_object()) throw FormatError(what + ": expected an object {value, updates}");
  EmaState state{json_at<double>(json, "value", what), json_at<int64_t>(json, "updates", what)};
  if (!std::isfinite(state.value) || state.updates < 0)
    throw FormatError(what + ": value must be finite and updates not negative");
  return state;
}

// The averages of the norms that have any, by name.
Json to_json(const TaperState& state, EmaState NormAverages::*average, const ModelConfig& config) {
  Json json = Json::object();
  for (const NormSite& site : norm_sites(config)) {
    if (state.calibration.empty()) break;
    const EmaState& ema = state.calibration.at(static_cast<size_t>(site.index)).*average;
    if (ema.updates > 0) json[site.name] = to_json(ema);
  }
  return json;
}

void read_averages(const Json& json, const char* key, EmaState NormAverages::*average,
                   const ModelConfig& config, const std::string& what, TaperState& state) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return;
  if (!it->is_object()) throw FormatError(fmt::format("{}: {} must be an object", what, key));
  const std::vector<NormSite> sites = norm_sites(config);
  for (const auto& [name, value] : it->items()) {
    const auto site =
        std::find_if(sites.begin(), sites.end(),
                     [&, &wanted = name](const NormSite& each) { return each.name == wanted; });
    if (site == sites.end())
      throw FormatError(fmt::format("{}: {}: the model has no norm \"{}\"", what, key, name));
    state.calibration.resize(sites.size());
    state.calibration[static_cast<size_t>(site->index)].*average =
        ema_from_json(value, fmt::format("{}: {}.{}", what, key, name));
  }
}

void check_names(const ModelConfig& config, const TaperState& taper, const std::string& what) {
  std::map<std::string, NormSite> known;
  for (NormSite& site : norm_sites(config)) known.emplace(site.name, site);
  std::set<std::string> listed;
  for (const auto* names : {&taper.tapered, &taper.folded}) {
    for (const std::string& name : *names) {
      const auto it = known.find(name);
      if (it == known.end())
        throw FormatError(fmt::format("{}: the model has no norm \"{}\"", what, name));
      if (!in_scope(it->second, taper.scope)) {
        throw FormatError(fmt::format("{}: norm {} is listed but lies outside the scope \"{}\"",
                                      what, name, to_string(taper.scope)));
      }
      if (!listed.insert(name).second)
        throw FormatError(fmt::format("{}: norm {} is listed twice", what, name));
    }
  }
}

}  // namespace

Json to_json(const TaperState& state, const ModelConfig& config) {
  Json json;
  json["version"] = kVersion;
  json["scope"] = to_string(state.scope);
  json["phase"] = state.phase;
  json["gate"] = state.gate;
  json["anchor"] = state.anchor;
  json["anchor_weight"] = state.anchor_weight;
  json["anchor_target"] = state.anchor_target ? Json(*state.anchor_target) : Json(nullptr);
  json["ema_weight"] = state.ema_weight;
  json["numerators"] = to_json(state, &NormAverages::numerator, config);
  json["denominators"] = to_json(state, &NormAverages::denominator, config);
  json["final_scale"] = to_json(state.final_scale);
  json["tapered"] = state.tapered;
  json["folded"] = state.folded;
  json["source"] = state.source;
  return json;
}

TaperState taper_state_from_json(const Json& json, const ModelConfig& config,
                                 const std::string& what) {
  if (!json.is_object()) throw FormatError(what + ": expected a JSON object");
  const auto version = json_at<int64_t>(json, "version", what);
  if (version != kVersion) {
    throw FormatError(
        fmt::format("{}: version is {}, this program reads version {}", what, version, kVersion),
        version > kVersion ? "use a newer taper" : "");
  }
  TaperState state;
  try {
    state.scope = parse_scope(json_at<std::string>(json, "scope", what), what);
  } catch (const ConfigError& error) {
    throw FormatError(error.what());  // here it is the file that is wrong, not a setting
  }
  state.phase = json_at<std::string>(json, "phase", what);
  if (std::find(kPhases.begin(), kPhases.end(), state.phase) == kPhases.end()) {
    throw FormatError(fmt::format("{}: unknown phase \"{}\" (known: {})", what, state.phase,
                                  fmt::join(kPhases, ", ")));
  }
  state.gate = json_at<double>(json, "gate", what);
  state.anchor = json_value<bool>(json, "anchor", false, what);
  state.anchor_weight = json_value<double>(json, "anchor_weight", 0.0, what);
  if (const auto it = json.find("anchor_target"); it != json.end() && !it->is_null())
    state.anchor_target = json_at<double>(json, "anchor_target", what);
  state.ema_weight = json_value<double>(json, "ema_weight", 0.0, what);
  read_averages(json, "numerators", &NormAverages::numerator, config, what, state);
  read_averages(json, "denominators", &NormAverages::denominator, config, what, state);
  if (const auto it = json.find("final_scale"); it != json.end() && !it->is_null())
    state.final_scale = ema_from_json(*it, what + ": final_scale");
  state.tapered = json_at<std::vector<std::string>>(json, "tapered", what);
  state.folded = json_at<std::vector<std::string>>(json, "folded", what);
  if (const auto it = json.find("source"); it != json.end()) state.source = *it;
  return state;
}

void check_taper_state(const ModelConfig& config, const TaperState& taper,
                       const std::string& what) {
  check_names(config, taper, what);
  if (!(taper.gate >= 0 && taper.gate <= 1))
    throw FormatError(fmt::format("{}: gate is {}, allowed are 0 to 1", what, taper.gate));
  if (taper.gate != 1 && taper.tapered.empty() && taper.folded.empty())
    throw FormatError(fmt::format("{}: gate is {} but no norm is tapered", what, taper.gate));
  if (!taper.folded.empty() && taper.gate != 0) {
    throw FormatError(
        fmt::format("{}: norms are folded but the gate is {}, not 0", what, taper.gate));
  }
  if (taper.phase == "folded" && (taper.folded.empty() || !taper.tapered.empty())) {
    throw FormatError(what +
                      ": the phase is \"folded\" but norms are still tapered, or none is folded");
  }
  const std::string final_norm = checkpoint_names(config).name({Slot::kFinalNorm});
  const bool final_folded =
      std::find(taper.folded.begin(), taper.folded.end(), final_norm) != taper.folded.end();
  if (final_folded && config.tied_head)
    throw FormatError(what + ": the final norm is folded into the head, but the head is tied");
  for (const double value : {taper.anchor_weight, taper.anchor_target.value_or(0)})
    if (!std::isfinite(value) || value < 0)
      throw FormatError(fmt::format("{}: the anchor's {} is not a usable number", what, value));
  if (!(taper.ema_weight >= 0 && taper.ema_weight <= 1)) {
    throw FormatError(
        fmt::format("{}: ema_weight is {}, allowed are 0 to 1", what, taper.ema_weight));
  }
}

}  // namespace taper
