// A small random model with a tokenizer of single bytes, as a checkpoint: what a command line
// needs.
#pragma once

#include <filesystem>

#include "model/random_checkpoint.h"
#include "text/byte_tokenizer.h"

namespace taper::test {

// Three rows of the head are padding.
inline void write_byte_model(const std::filesystem::path& folder, TaperScope scope,
                             double gate = 0) {
  RandomModel shape = random_model(40, scope, true, gate);
  RandomModel model;
  model.config = shape.config;
  model.taper = shape.taper;
  model.config.vocab_size = 260;
  model.config.bos_id = -1;
  model.config.eos_id = 0;
  fill_random(model.config, model.taper, 40, model.tensors);
  model.write(folder, byte_tokenizer_json());
}

}  // namespace taper::test
