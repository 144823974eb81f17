#include "model/hf_directory.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "core/file.h"
#include "model/checkpoint.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxJsonBytes = uint64_t{256} << 20;

Json read_json(const fs::path& path) {
  return parse_json(read_file(path, kMaxJsonBytes), path.string());
}

// Which file holds each tensor, as the index says.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const Json json = read_json(index);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    throw FormatError(index.string() + ": expected an object \"weight_map\" of tensor names");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const fs::path name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name == ".." || name != name.filename()) {
      throw FormatError(
          fmt::format("{}: tensor {} lies in {}, expected the name of a file beside it",
                      index.string(), tensor, file.dump()));
    }
    files[tensor] = name.string();
  }
  return files;
}

void read_shards(const fs::path& directory, const fs::path& index, HfModel& model) {
  const auto weight_map = read_weight_map(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  for (const std::string& name : names) {
    if (!fs::exists(directory / name)) {
      throw FormatError(
          fmt::format("{}: names the file {}, which is absent", index.string(), name));
    }
    model.files.push_back(std::make_shared<const SafetensorsFile>(directory / name));
    for (const TensorView& tensor : model.files.back()->tensors()) {
      const auto it = weight_map.find(tensor.name);
      if (it == weight_map.end() || it->second != name) {
        throw FormatError(fmt::format(
            "{}: holds tensor {}, which {} {}", (directory / name).string(), tensor.name,
            index.filename().string(),
            it == weight_map.end() ? std::string("does not list") : "places in " + it->second));
      }
      model.tensors.push_back(tensor);
    }
  }
  if (model.tensors.size() == weight_map.size()) return;
  std::set<std::string_view> present;
  for (const TensorView& tensor : model.tensors) present.insert(tensor.name);
  for (const auto& [tensor, file] : weight_map) {
    if (present.contains(tensor)) continue;
    throw FormatError(
        fmt::format("{}: places tensor {} in {}, which lacks it", index.string(), tensor, file));
  }
}

// The tensors that the model has, in the order of expected_tensors.
std::vector<TensorView> in_order(const ModelConfig& config, std::span<const TensorView> tensors) {
  std::map<std::string_view, const TensorView*> present;
  for (const TensorView& tensor : tensors) present.emplace(tensor.name, &tensor);
  std::vector<TensorView> ordered;
  for (const TensorSpec& spec : expected_tensors(config, {}))
    ordered.push_back(*present.at(spec.name));
  return ordered;
}

}  // namespace

HfModel read_hf_directory(const fs::path& directory) {
  HfModel model;
  const fs::path config = directory / "config.json";
  const fs::path weights = directory / "model.safetensors";
  const fs::path index = directory / "model.safetensors.index.json";
  if (!fs::exists(config)) throw FormatError(directory.string() + ": no config.json in it");
  model.config = from_config_json(read_json(config), config.string());
  if (fs::exists(weights)) {
    model.files.push_back(std::make_shared<const SafetensorsFile>(weights));
    model.tensors = model.files.back()->tensors();
  } else if (fs::exists(index)) {
    read_shards(directory, index, model);
  } else {
    throw FormatError(
        directory.string() + ": neither model.safetensors nor its index in it",
        "weights in other formats (.bin, .pth) have to be saved as safetensors first");
  }
  check_tensors(model.config, {}, model.tensors, directory.string());
  model.tensors = in_order(model.config, model.tensors);
  const fs::path tokenizer = directory / "tokenizer.json";
  if (fs::exists(tokenizer)) model.tokenizer_json = read_file(tokenizer, kMaxJsonBytes);
  return model;
}

}  // namespace taper
