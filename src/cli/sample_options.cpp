#include "cli/sample_options.h"

#include "core/error.h"
#include "core/file.h"

namespace taper {
namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const Checkpoint& checkpoint) {
  const auto path = checkpoint.tokenizer_path();
  return path ? load_tokenizer(*path) : nullptr;
}

}  // namespace

TokenSample load_sample(const Checkpoint& checkpoint, const SampleOptions& options) {
  const ModelConfig& config = checkpoint.config();
  const auto tokenizer = tokenizer_of(checkpoint);
  if (!options.data.empty()) {
    return sample_shard(TokenShard(options.data), config, tokenizer ? tokenizer->fingerprint() : 0,
                        options.size);
  }
  if (options.text.empty())
    throw ConfigError("no tokens to run the model on", "give --data F.tok or --text F");
  if (!tokenizer) {
    throw ConfigError(checkpoint.path().string() + ": has no tokenizer.json to read text with",
                      "give tokens with --data F.tok");
  }
  const MappedFile file(options.text);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  return sample_text(text, options.text.filename().string(), config, *tokenizer, options.size);
}

TokenSample load_any_sample(const Checkpoint& checkpoint, const SampleOptions& options) {
  if (!options.data.empty() || !options.text.empty()) return load_sample(checkpoint, options);
  if (const auto recorded = checkpoint.taper().source.find("valid_data");
      recorded != checkpoint.taper().source.end() && recorded->is_string()) {
    SampleOptions held_out = options;
    held_out.data = recorded->get<std::string>();
    if (std::filesystem::exists(held_out.data)) return load_sample(checkpoint, held_out);
  }
  const auto tokenizer = tokenizer_of(checkpoint);
  if (!tokenizer) return sample_random_ids(checkpoint.config(), options.size);
  return sample_built_in_text(checkpoint.config(), *tokenizer, options.size);
}

}  // namespace taper
