#include "text/tokenizer.h"

#include <xxhash.h>

#include "core/file.h"
#include "text/byte_level_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"
#include "text/tokenizer_spec.h"

namespace taper {

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec, const std::string& what,
                                          const std::string& json) {
  check_tokenizer_spec(spec, what);
  const std::string canonical = tokenizer_spec_to_json(spec);
  std::unique_ptr<Tokenizer> tokenizer;
  if (spec.kind == TokenizerKind::kByteLevel)
    tokenizer = std::make_unique<ByteLevelTokenizer>(std::move(spec));
  else
    tokenizer = std::make_unique<SentencePieceTokenizer>(std::move(spec));
  tokenizer->fingerprint_ = XXH64(canonical.data(), canonical.size(), 0);
  tokenizer->json_ = json.empty() ? canonical : json;
  return tokenizer;
}

std::unique_ptr<Tokenizer> parse_tokenizer(const std::string& json, const std::string& what) {
  TokenizerSpec spec = parse_tokenizer_json(json, what);
  return make_tokenizer(std::move(spec), what, json);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  return parse_tokenizer(read_file(path), path.string());
}

}  // namespace taper
