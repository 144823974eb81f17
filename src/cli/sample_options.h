// Where the commands that run a model on some tokens take them from.
#pragma once

#include <filesystem>

#include "infer/token_sample.h"

namespace taper {

struct SampleOptions {
  std::filesystem::path data{};  // a token shard
  std::filesystem::path text{};  // a text file, encoded with the checkpoint's tokenizer
  SampleSize size;
};

// The sample that the options name. ConfigError when they name none, or a text for a checkpoint
// without a tokenizer.
TokenSample load_sample(const Checkpoint& checkpoint, const SampleOptions& options);

// The same, but without a file: a built-in paragraph, or random ids when there is no tokenizer.
TokenSample load_any_sample(const Checkpoint& checkpoint, const SampleOptions& options);

}  // namespace taper
