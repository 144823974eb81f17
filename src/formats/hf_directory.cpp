#include "formats/hf_directory.h"

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

TensorSet read_file_of_weights(const fs::path& path) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  TensorSet tensors;
  tensors.keep(file);
  for (const TensorView& tensor : file->tensors()) tensors.add_view(tensor);
  return tensors;
}

TensorSet read_shards(const fs::path& directory, const fs::path& index) {
  TensorSet tensors;
  const auto weight_map = read_weight_map(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  for (const std::string& name : names) {
    if (!fs::exists(directory / name)) {
      throw FormatError(
          fmt::format("{}: names the file {}, which is absent", index.string(), name));
    }
    const auto shard = std::make_shared<const SafetensorsFile>(directory / name);
    tensors.keep(shard);
    for (const TensorView& tensor : shard->tensors()) {
      const auto it = weight_map.find(tensor.name);
      if (it == weight_map.end() || it->second != name) {
        throw FormatError(fmt::format(
            "{}: holds tensor {}, which {} {}", (directory / name).string(), tensor.name,
            index.filename().string(),
            it == weight_map.end() ? std::string("does not list") : "places in " + it->second));
      }
      tensors.add_view(tensor);
    }
  }
  if (tensors.views().size() == weight_map.size()) return tensors;
  std::set<std::string_view> present;
  for (const TensorView& tensor : tensors.views()) present.insert(tensor.name);
  for (const auto& [tensor, file] : weight_map) {
    if (present.contains(tensor)) continue;
    throw FormatError(
        fmt::format("{}: places tensor {} in {}, which lacks it", index.string(), tensor, file));
  }
  return tensors;
}

// The tensors that the model has, in the order of expected_tensors.
TensorSet in_order(const ModelConfig& config, TensorSet tensors) {
  TensorSet ordered;
  for (const TensorSpec& spec : expected_tensors(config, {}))
    ordered.add_view(tensors.at(spec.name));
  ordered.keep(std::make_shared<const TensorSet>(std::move(tensors)));
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
  TensorSet tensors;
  if (fs::exists(weights)) {
    tensors = read_file_of_weights(weights);
  } else if (fs::exists(index)) {
    tensors = read_shards(directory, index);
  } else {
    throw FormatError(
        directory.string() + ": neither model.safetensors nor its index in it",
        "weights in other formats (.bin, .pth) have to be saved as safetensors first");
  }
  check_tensors(model.config, {}, tensors.views(), directory.string());
  model.tensors = in_order(model.config, std::move(tensors));
  const fs::path tokenizer = directory / "tokenizer.json";
  if (fs::exists(tokenizer)) model.tokenizer_json = read_file(tokenizer, kMaxJsonBytes);
  return model;
}

}  // namespace taper
