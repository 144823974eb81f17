// The real model of ../shared/data as a checkpoint directory.
#pragma once

#include <filesystem>

#include "core/file.h"
#include "formats/llama2c.h"
#include "model/checkpoint.h"
#include "text/llama2c_tokenizer.h"

namespace taper::test {

inline void import_stories260k(const std::filesystem::path& shared,
                               const std::filesystem::path& folder) {
  const MappedFile model_file(shared / "stories260K/stories260K.bin");
  const MappedFile tokenizer_file(shared / "stories260K/tok512.bin");
  const Llama2cModel model = read_llama2c(model_file.bytes(), "stories260K.bin");
  const auto views = model.tensors.views();
  std::filesystem::create_directories(folder);
  write_checkpoint_files(folder, model.config, {}, views,
                         llama2c_tokenizer_to_json(tokenizer_file.bytes(), "tok512.bin"));
}

}  // namespace taper::test
