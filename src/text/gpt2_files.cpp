#include "text/gpt2_files.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "text/tokenizer_spec.h"

namespace taper {

std::string gpt2_files_to_json(const std::filesystem::path& vocab_file,
                               const std::filesystem::path& merges_file) {
  // Put together as a tokenizer.json and read by its reader, which does the checking.
  const Json vocab = parse_json(read_file(vocab_file), vocab_file.string());
  if (!vocab.is_object()) throw FormatError(vocab_file.string() + ": expected an object of ids");
  Json merges = Json::array();
  const std::string text = read_file(merges_file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) merges.push_back(line);
    begin = end + 1;
  }
  Json added = Json::array();
  if (const auto end_of_text = vocab.find(kEndOfText); end_of_text != vocab.end())
    added.push_back({{"id", *end_of_text}, {"content", kEndOfText}, {"special", true}});
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  Json root = {{"added_tokens", added},
               {"pre_tokenizer", byte_level},
               {"decoder", byte_level},
               {"model", {{"type", "BPE"}}}};
  root["model"]["vocab"] = vocab;
  root["model"]["merges"] = std::move(merges);
  const std::string what = fmt::format("{} and {}", vocab_file.string(), merges_file.string());
  return tokenizer_spec_to_json(parse_tokenizer_json(root.dump(), what));
}

}  // namespace taper
