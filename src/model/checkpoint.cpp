#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "model/names.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;

std::string show(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

NormState state_of(const TaperState& taper, const std::string& norm) {
  if (contains(taper.folded, norm)) return NormState::kFolded;
  return contains(taper.tapered, norm) ? NormState::kTapered : NormState::kPlain;
}

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

// Buffers that older Hugging Face files carry and that the config already determines.
bool is_ignored_buffer(const std::string& name) {
  return name.ends_with(".self_attn.rotary_emb.inv_freq");
}

void check_redundant_head(const TensorView& head, const TensorView& embedding,
                          const std::string& what) {
  const bool equal = head.dtype == embedding.dtype && head.shape == embedding.shape &&
                     head.data.size() == embedding.data.size() &&
                     std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0;
  if (equal) return;
  throw FormatError(
      fmt::format("{}: config.json ties the head to the embedding, but {} differs from {}", what,
                  head.name, embedding.name),
      "set tie_word_embeddings to false in config.json if the head is the model's own");
}

std::string float_type_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "float64";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    default:
      return "float32";
  }
}

fs::path weights_path(const fs::path& directory) {
  const fs::path single = directory / "model.safetensors";
  const fs::path index = directory / "model.safetensors.index.json";
  if (!fs::exists(single) && fs::exists(index)) {
    throw FormatError(fmt::format("{}: the weights are split over several files", index.string()),
                      "join them with: taper import " + directory.string() + " OUT");
  }
  return single;
}

}  // namespace

std::string weight_name(const ModelConfig& config, Place place) {
  return checkpoint_names(config).name(place) + ".weight";
}

std::vector<TensorSpec> expected_tensors(const ModelConfig& config, const TaperState& taper) {
  const NameTable& names = checkpoint_names(config);
  std::vector<TensorSpec> specs;
  const Architecture architecture(config);
  for (const Part& part : architecture.parts()) {
    const std::string name = names.name(part.place);
    const NormState state = is_norm(part.place.slot) ? state_of(taper, name) : NormState::kPlain;
    if (state == NormState::kFolded) continue;
    specs.push_back({name + ".weight", part.shape});
    if (part.bias) specs.push_back({name + ".bias", {part.shape[0]}});
    if (state != NormState::kTapered) continue;
    specs.push_back({name + ".taper_weight", part.shape});
    specs.push_back({name + ".taper_scale", {1}});
  }
  return specs;
}

void check_tensors(const ModelConfig& config, const TaperState& taper,
                   std::span<const TensorView> tensors, const std::string& what) {
  std::map<std::string_view, const TensorView*> present;
  for (const TensorView& tensor : tensors)
    if (!present.emplace(tensor.name, &tensor).second)
      throw FormatError(fmt::format("{}: tensor {} appears twice", what, tensor.name));
  std::set<std::string_view> consumed;
  for (const TensorSpec& spec : expected_tensors(config, taper)) {
    const auto it = present.find(spec.name);
    if (it == present.end()) {
      throw FormatError(
          fmt::format("{}: tensor {} {} is missing", what, spec.name, show(spec.shape)));
    }
    const TensorView& tensor = *it->second;
    if (tensor.shape != spec.shape) {
      throw ShapeError(fmt::format("{}: tensor {} has shape {}, config.json calls for {}", what,
                                   spec.name, show(tensor.shape), show(spec.shape)));
    }
    if (!is_float(tensor.dtype)) {
      throw FormatError(fmt::format("{}: tensor {} is of type {}, expected F32, BF16, F16 or F64",
                                    what, spec.name, dtype_name(tensor.dtype)));
    }
    consumed.insert(tensor.name);
  }
  for (const TensorView& tensor : tensors) {
    if (consumed.contains(tensor.name) || is_ignored_buffer(tensor.name)) continue;
    if (config.tied_head && tensor.name == weight_name(config, {Slot::kHead})) {
      check_redundant_head(tensor, *present.at(weight_name(config, {Slot::kEmbedding})), what);
      continue;
    }
    throw FormatError(fmt::format("{}: tensor {} {} has no place in the model of config.json", what,
                                  tensor.name, show(tensor.shape)));
  }
}

fs::path resolve_checkpoint(const fs::path& path) {
  if (!fs::exists(path)) throw FormatError(path.string() + ": no such directory");
  if (fs::exists(path / "config.json")) return path;
  const fs::path latest = path / "checkpoints" / "latest";
  if (!fs::exists(latest)) {
    throw FormatError(
        path.string() + ": neither a checkpoint (config.json) nor a run (checkpoints/latest)",
        fs::is_regular_file(path) ? "for a llama2.c .bin file, use taper import first" : "");
  }
  std::string name = read_file(latest, 4096);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  const fs::path folder(name);
  if (name.empty() || name == "." || name == ".." || folder.filename() != folder) {
    throw FormatError(fmt::format("{}: expected the name of a folder beside it, found \"{}\"",
                                  latest.string(), name));
  }
  const fs::path checkpoint = latest.parent_path() / folder;
  if (!fs::exists(checkpoint / "config.json")) {
    throw FormatError(fmt::format("{}: names \"{}\", which is not a checkpoint (no config.json)",
                                  latest.string(), name));
  }
  return checkpoint;
}

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = resolve_checkpoint(path);
  checkpoint.what_ = checkpoint.path_.string();
  const fs::path config_path = checkpoint.path_ / "config.json";
  const fs::path taper_path = checkpoint.path_ / "taper.json";
  const Json config = parse_json(read_file(config_path, kMaxConfigBytes), config_path.string());
  checkpoint.config_ = from_config_json(config, config_path.string());
  if (fs::exists(taper_path)) {
    checkpoint.taper_ = taper_state_from_json(
        parse_json(read_file(taper_path, kMaxConfigBytes), taper_path.string()), checkpoint.config_,
        taper_path.string());
    check_taper_state(checkpoint.config_, checkpoint.taper_, taper_path.string());
  } else if (config["model_type"] == "taper_llama") {
    throw FormatError(config_path.string() +
                          ": the model has tapered or folded norms, but there is no taper.json",
                      "copy the whole checkpoint directory");
  }
  const auto file = std::make_shared<const SafetensorsFile>(weights_path(checkpoint.path_));
  check_tensors(checkpoint.config_, checkpoint.taper_, file->tensors(), file->path().string());
  TensorSet tensors;
  for (const TensorView& tensor : file->tensors()) tensors.add_view(tensor);
  tensors.keep(file);
  checkpoint.tensors_ = std::make_shared<const TensorSet>(std::move(tensors));
  return checkpoint;
}

Checkpoint Checkpoint::in_memory(ModelConfig config, TaperState taper,
                                 std::shared_ptr<const TensorSet> tensors, std::string what) {
  check_taper_state(config, taper, what);
  check_tensors(config, taper, tensors->views(), what);
  Checkpoint checkpoint;
  checkpoint.what_ = std::move(what);
  checkpoint.config_ = std::move(config);
  checkpoint.taper_ = std::move(taper);
  checkpoint.tensors_ = std::move(tensors);
  return checkpoint;
}

NormState Checkpoint::norm_state(const NormSite& site) const { return state_of(taper_, site.name); }

std::optional<fs::path> Checkpoint::tokenizer_path() const {
  const fs::path path = path_ / "tokenizer.json";
  if (path_.empty() || !fs::exists(path)) return std::nullopt;
  return path;
}

void write_checkpoint_files(const fs::path& directory, const ModelConfig& config,
                            const TaperState& taper, std::span<const TensorView> tensors,
                            const std::string& tokenizer_json) {
  const std::string what = directory.string();
  check_taper_state(config, taper, what);
  check_tensors(config, taper, tensors, what);
  Json json = to_config_json(config);
  json["torch_dtype"] = float_type_name(tensors.front().dtype);
  if (!taper.tapered.empty() || !taper.folded.empty()) {
    json["architectures"] = {"TaperLlamaForCausalLM"};
    json["model_type"] = "taper_llama";
  }
  write_file_atomically(directory / "config.json", json.dump(2) + "\n");
  write_file_atomically(directory / "taper.json", to_json(taper, config).dump(2) + "\n");
  if (!tokenizer_json.empty()) write_file_atomically(directory / "tokenizer.json", tokenizer_json);
  write_safetensors(directory / "model.safetensors", tensors);
}

}  // namespace taper
