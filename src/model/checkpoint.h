// A checkpoint directory: config.json, model.safetensors, tokenizer.json, taper.json.
//
// Tensor names are Hugging Face's. A tapered norm has, beside its `weight` (gamma), `taper_weight` (gamma~,
// [D]) and `taper_scale` (c, [1]). A folded norm has no tensors and is listed in taper.json.
// open() checks that the tensors are exactly those the config and taper.json call for, with their shapes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/config.h"
#include "model/norm_sites.h"

namespace taper {

// An exponential moving average and the number of updates behind it: s <- (1 - m) s + m x.
struct EmaState {
  double value = 0;
  int64_t updates = 0;
};

// taper.json: how far the method has come on this model.
struct TaperState {
  TaperScope scope = TaperScope::kNone;
  std::string phase = "plain";  // plain, warmup (calibrating), taper, settle, folded
  double gate = 1.0;            // the g at which the saved weights stand
  bool anchor = false;
  double anchor_weight = 0;            // lambda
  std::optional<double> anchor_target;  // s_tgt, once frozen
  double ema_weight = 0;               // m
  std::map<std::string, EmaState> numerators, denominators;  // calibration, by norm name
  EmaState final_scale;                                       // EMA of E[s(h)] at the final norm
  std::vector<std::string> tapered;  // norm names that hold taper_weight and taper_scale
  std::vector<std::string> folded;   // norm names that are gone
  Json source = Json::object();      // where the model came from (import, fold), free form
};

Json to_json(const TaperState& state);
TaperState taper_state_from_json(const Json& json, const std::string& what);  // FormatError

// What a tensor is, for the complete list a checkpoint must hold.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<TensorSpec> expected_tensors(const ModelConfig& config, const TaperState& taper);
// As expected_tensors would list them: "model.embed_tokens.weight", "lm_head.weight",
// "model.layers.N.self_attn.{q,k,v,o}_proj.weight", "model.layers.N.mlp.{gate,up,down}_proj.weight",
// "model.layers.N.{input,post_attention}_layernorm.weight", "model.norm.weight".

class Checkpoint {
 public:
  // `path` is a checkpoint directory, or a run directory: then its checkpoints/latest.
  static Checkpoint open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const ModelConfig& config() const { return config_; }
  const TaperState& taper() const { return taper_; }
  const SafetensorsFile& tensors() const { return *tensors_; }
  NormState norm_state(const NormSite& site) const;
  // The path of tokenizer.json when there is one.
  std::optional<std::filesystem::path> tokenizer_path() const;

 private:
  std::filesystem::path path_;
  ModelConfig config_;
  TaperState taper_;
  std::shared_ptr<const SafetensorsFile> tensors_;
};

// Fills `directory` (which exists, normally AtomicDirectory::path()) with the checkpoint's files.
void write_checkpoint_files(const std::filesystem::path& directory, const ModelConfig& config,
                            const TaperState& taper, std::span<const TensorView> tensors,
                            const std::string& tokenizer_json);  // empty: none

}  // namespace taper
