// A foreign Hugging Face directory: config.json and its weights, in one file or in several.
//
// With model.safetensors.index.json every shard it names must exist, hold exactly the tensors that
// the index places there, and no tensor may be in the shards that the index leaves out: else
// FormatError.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/config.h"

namespace taper {

struct HfModel {
  ModelConfig config;
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::vector<TensorView> tensors;  // views into files, in execution order; known buffers left out
  std::string tokenizer_json;       // empty when there is none
};

// FormatError, ShapeError: see also Checkpoint::open, which this applies to a split model.
HfModel read_hf_directory(const std::filesystem::path& directory);

}  // namespace taper
