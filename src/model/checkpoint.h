// A checkpoint: a model with its configuration and how far the method has come on it, normally a
// directory of config.json, model.safetensors, tokenizer.json and taper.json.
//
// Tensor names are Hugging Face's. A tapered norm has, beside its `weight` (gamma), `taper_weight`
// (gamma~, [D]) and `taper_scale` (c, [1]). A folded norm has no tensors and is listed in
// taper.json. open() and in_memory() check that the tensors are exactly those the config and
// taper.json call for, with their shapes.
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
#include "model/tensor_set.h"

namespace taper {

// An exponential moving average and the number of updates behind it: s <- (1 - m) s + m x.
struct EmaState {
  double value = 0;
  int64_t updates = 0;
};

// What calibration has gathered of one norm (method.md, section 1).
struct NormAverages {
  EmaState numerator, denominator;
};

// taper.json: how far the method has come on this model.
struct TaperState {
  TaperScope scope = TaperScope::kNone;
  std::string phase = "plain";  // plain, warmup (calibrating), taper, settle, folded
  double gate = 1.0;            // the g at which the saved weights stand
  bool anchor = false;
  double anchor_weight = 0;               // lambda
  std::optional<double> anchor_target;    // s_tgt, once frozen
  double ema_weight = 0;                  // m
  std::vector<NormAverages> calibration;  // norm by norm; empty: none was gathered
  EmaState final_scale;                   // EMA of E[s(h)] at the final norm
  std::vector<std::string> tapered;       // norm names that hold taper_weight and taper_scale
  std::vector<std::string> folded;        // norm names that are gone
  Json source = Json::object();           // where the model came from (import, fold), free form
};

Json to_json(const TaperState& state, const ModelConfig& config);
TaperState taper_state_from_json(const Json& json, const ModelConfig& config,
                                 const std::string& what);  // FormatError

// What a tensor is, for the complete list a checkpoint must hold.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
};
// "model.layers.3.mlp.up_proj.weight"
std::string weight_name(const ModelConfig& config, Place place);
// Of all parts of the architecture, in its order.
std::vector<TensorSpec> expected_tensors(const ModelConfig& config, const TaperState& taper);

// Norm names in `taper` exist, are in its scope and are listed once; numbers are finite and in
// range; a folded norm needs gate 0, a folded final norm an untied head. FormatError starting with
// `what`.
void check_taper_state(const ModelConfig& config, const TaperState& taper, const std::string& what);

// `tensors` are exactly expected_tensors, in a float type: FormatError for a missing or unknown
// tensor, ShapeError for a shape. A tied model may hold lm_head.weight too if it equals the
// embedding byte by byte, and rotary_emb.inv_freq buffers of older files are ignored.
void check_tensors(const ModelConfig& config, const TaperState& taper,
                   std::span<const TensorView> tensors, const std::string& what);

// The checkpoint directory that `path` means: itself when it holds config.json, else, for a run
// directory, the folder under checkpoints/ that the one-line text file checkpoints/latest names.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

// Immutable; copies share the tensors.
class Checkpoint {
 public:
  // `path` is a checkpoint directory, or a run directory: then its checkpoints/latest. A directory
  // without taper.json is a plain Hugging Face checkpoint. FormatError, ShapeError.
  static Checkpoint open(const std::filesystem::path& path);

  // A model that has no directory: all that open() makes of one, and it runs the same. `what` names
  // it in messages. The views in `tensors` must stay valid while the set lives (TensorSet::keep).
  // FormatError, ShapeError.
  static Checkpoint in_memory(ModelConfig config, TaperState taper,
                              std::shared_ptr<const TensorSet> tensors, std::string what);

  const std::string& what() const { return what_; }            // its name in messages
  const std::filesystem::path& path() const { return path_; }  // the directory; empty: none
  const ModelConfig& config() const { return config_; }
  const TaperState& taper() const { return taper_; }
  const TensorSet& tensors() const { return *tensors_; }
  std::shared_ptr<const TensorSet> shared_tensors() const { return tensors_; }
  NormState norm_state(const NormSite& site) const;
  // The path of tokenizer.json when there is one.
  std::optional<std::filesystem::path> tokenizer_path() const;

 private:
  Checkpoint() = default;

  std::string what_;
  std::filesystem::path path_;
  ModelConfig config_;
  TaperState taper_;
  std::shared_ptr<const TensorSet> tensors_;
};

// Fills `directory` (which exists, normally AtomicDirectory::path()) with the checkpoint's files,
// after the checks that open() makes. config.json of a model with tapered or folded norms says
// model_type "taper_llama": software that only knows "llama" must refuse it, not run it with its
// norms wrong.
void write_checkpoint_files(const std::filesystem::path& directory, const ModelConfig& config,
                            const TaperState& taper, std::span<const TensorView> tensors,
                            const std::string& tokenizer_json);  // empty: none

}  // namespace taper
