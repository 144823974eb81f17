// A foreign Hugging Face directory: config.json and its weights, in one file or in several.
//
// With model.safetensors.index.json every shard it names must exist, hold exactly the tensors that
// the index places there, and no tensor may be in the shards that the index leaves out: else
// FormatError.
#pragma once

#include <filesystem>
#include <string>

#include "model/config.h"
#include "model/tensor_set.h"

namespace taper {

struct HfModel {
  ModelConfig config;
  TensorSet tensors;           // in execution order, views into the files, which it keeps
  std::string tokenizer_json;  // empty when there is none
};

// FormatError, ShapeError, as check_tensors has them: a tensor that the model lacks or does not
// know is named. Known buffers are left out.
HfModel read_hf_directory(const std::filesystem::path& directory);

}  // namespace taper
