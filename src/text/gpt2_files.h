// GPT-2's own vocabulary files (encoder.json or vocab.json, vocab.bpe or merges.txt) as a
// tokenizer.json.
#pragma once

#include <filesystem>
#include <string>

namespace taper {

// FormatError naming the file and line that is wrong.
std::string gpt2_files_to_json(const std::filesystem::path& vocab_file,
                               const std::filesystem::path& merges_file);

}  // namespace taper
