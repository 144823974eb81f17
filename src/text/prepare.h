// Text files to token shards: what `taper data prepare` does.
//
// Documents are the parts of the input between separators (and files), white space around them
// trimmed, each with what the tokenizer writes around it (framing.h). Text that spells a special
// token stays text.
//
// Held-out share: whole documents, spread evenly, the same for the same input. A document
// larger than the whole share is cut at a line end (else a space) instead, and its last part held
// out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/framing.h"

namespace taper {

struct PrepareOptions {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> inputs;  // files, or folders of .txt files
  std::vector<std::filesystem::path>
      valid;                  // held-out files; left out of `inputs` where both name them
  double valid_fraction = 0;  // in [0, 1), only without `valid`
  std::string separator{kDocumentSeparator};  // empty: each file is one document
  std::filesystem::path out;                  // gets train.tok, valid.tok, tokenizer.json
};

struct PrepareResult {
  int64_t train_tokens = 0, valid_tokens = 0;
  int64_t train_documents = 0, valid_documents = 0;
  int64_t bytes = 0;  // of text, separators and trimmed white space not counted
  int64_t vocab_size = 0;
};

// The files appear together at the end; Interrupted or an error leaves what was there before.
PrepareResult prepare_data(const PrepareOptions& options);

}  // namespace taper
