// A small random model with a tokenizer of single bytes, as a checkpoint: what a command line
// needs.
#pragma once

#include <filesystem>
#include <string>

#include "model/random_checkpoint.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"

namespace taper::test {

inline std::string byte_tokenizer_json() {
  TokenizerSpec spec;
  spec.vocab = {std::string(kEndOfText)};
  for (int byte = 0; byte < 256; ++byte)
    spec.vocab.push_back(bytes_to_chars(std::string(1, static_cast<char>(byte))));
  spec.added = {{0, std::string(kEndOfText)}};
  spec.steps = {SplitStep::kGpt2};
  return tokenizer_spec_to_json(spec);
}

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
