#include "train/training_state.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace taper {

namespace {

constexpr int64_t kVersion = 1;

TensorView flat_view(const std::string& name, std::span<const float> flat) {
  return {name, DType::kF32, {std::ssize(flat)}, std::as_bytes(flat)};
}

void restore_flat(const SafetensorsFile& file, const std::string& name, std::span<float> flat) {
  const TensorView& tensor = file.at(name);
  if (tensor.num_elements() != std::ssize(flat))
    throw ShapeError(fmt::format("{}: tensor {} has {} elements, expected {}", file.path().string(),
                                 name, tensor.num_elements(), flat.size()),
                     "the checkpoint belongs to a run with another model or taper.scope");
  const std::vector<float> values = to_float32(tensor);
  std::copy(values.begin(), values.end(), flat.begin());
}

}  // namespace

void write_training_checkpoint(const std::filesystem::path& folder,
                               const ModelParameters<float>& model, const TaperState& taper,
                               const std::string& tokenizer_json, const TrainingState& state,
                               const AdamW& weights, const AdamW& taper_weights) {
  const std::vector<TensorView> tensors = model.tensor_views();
  write_checkpoint_files(folder, model.config(), taper, tensors, tokenizer_json);

  std::vector<TensorView> moments = {flat_view("weights.exp_avg", weights.first_moments()),
                                     flat_view("weights.exp_avg_sq", weights.second_moments())};
  if (taper_weights.updates() > 0) {
    moments.push_back(flat_view("taper.exp_avg", taper_weights.first_moments()));
    moments.push_back(flat_view("taper.exp_avg_sq", taper_weights.second_moments()));
  }
  write_safetensors(folder / "train.safetensors", moments);

  Json json;
  json["version"] = kVersion;
  json["step"] = state.step;
  json["weights_updates"] = weights.updates();
  json["taper_updates"] = taper_weights.updates();
  json["skipped_steps"] = state.skipped_steps;
  json["skipped_in_a_row"] = state.skipped_in_a_row;
  json["smoothed_loss"] = state.smoothed_loss;
  json["smoothed_updates"] = state.smoothed_updates;
  if (std::isfinite(state.best_loss)) json["best_loss"] = state.best_loss;
  json["train_tokens"] = state.train_tokens;
  json["seconds"] = state.seconds;
  write_file_atomically(folder / "train.json", json.dump(2) + "\n");
}

TrainingState read_training_checkpoint(const std::filesystem::path& folder,
                                       ModelParameters<float>& model, TaperState& taper,
                                       AdamW& weights, AdamW& taper_weights) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  model.load(checkpoint);
  taper = checkpoint.taper();

  const std::filesystem::path path = folder / "train.json";
  const std::string what = path.string();
  const Json json = parse_json(read_file(path), what);
  const auto version = json_at<int64_t>(json, "version", what);
  if (version != kVersion)
    throw FormatError(fmt::format("{}: version {}, expected {}", what, version, kVersion),
                      "resume with the release of taper that wrote it");
  TrainingState state;
  state.step = json_at<int64_t>(json, "step", what);
  state.skipped_steps = json_at<int64_t>(json, "skipped_steps", what);
  state.skipped_in_a_row = json_at<int64_t>(json, "skipped_in_a_row", what);
  state.smoothed_loss = json_at<double>(json, "smoothed_loss", what);
  state.smoothed_updates = json_at<int64_t>(json, "smoothed_updates", what);
  state.best_loss = json_value<double>(json, "best_loss", state.best_loss, what);
  state.train_tokens = json_at<int64_t>(json, "train_tokens", what);
  state.seconds = json_at<double>(json, "seconds", what);
  weights.set_updates(json_at<int64_t>(json, "weights_updates", what));
  taper_weights.set_updates(json_at<int64_t>(json, "taper_updates", what));

  const SafetensorsFile moments(folder / "train.safetensors");
  restore_flat(moments, "weights.exp_avg", weights.first_moments());
  restore_flat(moments, "weights.exp_avg_sq", weights.second_moments());
  if (taper_weights.updates() > 0) {
    restore_flat(moments, "taper.exp_avg", taper_weights.first_moments());
    restore_flat(moments, "taper.exp_avg_sq", taper_weights.second_moments());
  }
  return state;
}

}  // namespace taper
