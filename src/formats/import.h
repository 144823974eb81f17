// A foreign model as one of our checkpoints: a llama2.c v0 file with its tokenizer, or a Hugging
// Face directory with one or several weight files.
#pragma once

#include <filesystem>
#include <string>

#include "model/checkpoint.h"
#include "model/tensor_set.h"

namespace taper {

struct ImportedModel {
  std::string format;  // "llama2c" or "huggingface"
  ModelConfig config;
  TaperState taper;            // plain; its source names format and file
  std::string tokenizer_json;  // empty: none
  TensorSet tensors;
};

// `source` is a file (llama2.c) or a directory (Hugging Face). `tokenizer` is a tokenizer.json or a
// llama2.c tokenizer file; empty: the directory's own, or the file beside the model that llama2.c
// calls tok<vocabulary>.bin or tokenizer.bin. ConfigError when a llama2.c model has none,
// FormatError when the model or the tokenizer is malformed, or the tokenizer has another vocabulary
// than the model.
ImportedModel import_model(const std::filesystem::path& source,
                           const std::filesystem::path& tokenizer);

}  // namespace taper
