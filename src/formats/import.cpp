#include "formats/import.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "formats/hf_directory.h"
#include "formats/llama2c.h"
#include "text/llama2c_tokenizer.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

// tokenizer.json of `path`, which may be a llama2.c tokenizer file.
std::string read_tokenizer(const fs::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (path.extension() != ".json") return llama2c_tokenizer_to_json(bytes, path.string());
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

fs::path find_llama2c_tokenizer(const fs::path& model, int64_t vocab_size) {
  const fs::path folder = model.parent_path();
  const std::string own = fmt::format("tok{}.bin", vocab_size);
  for (const std::string& name : {own, std::string("tokenizer.bin")}) {
    if (!fs::exists(folder / name)) continue;
    log_info("using the tokenizer {}", (folder / name).string());
    return folder / name;
  }
  throw ConfigError(fmt::format("{}: a llama2.c model needs its tokenizer, and neither {} nor "
                                "tokenizer.bin lies beside it",
                                model.string(), own),
                    "give it with --tokenizer FILE");
}

// A tokenizer with more tokens than the model has rows would yield ids that do not exist.
void check_vocabulary(const std::string& json, const std::string& what, const ModelConfig& config,
                      bool equal) {
  const int64_t found = parse_tokenizer(json, what)->vocab_size();
  if (found == config.vocab_size || (!equal && found < config.vocab_size)) return;
  throw FormatError(fmt::format("{}: {} tokens, but the model's vocabulary is {}", what, found,
                                config.vocab_size),
                    "give the model's own tokenizer with --tokenizer FILE");
}

void import_llama2c(const fs::path& source, fs::path tokenizer, ImportedModel& model) {
  const MappedFile file(source);
  Llama2cModel read = read_llama2c(file.bytes(), source.string());
  if (tokenizer.empty()) tokenizer = find_llama2c_tokenizer(source, read.config.vocab_size);
  model.format = "llama2c";
  model.config = read.config;
  model.tensors = std::move(read.tensors);
  model.tokenizer_json = read_tokenizer(tokenizer);
  check_vocabulary(model.tokenizer_json, tokenizer.string(), model.config, /*equal=*/true);
}

void import_hf(const fs::path& source, const fs::path& tokenizer, ImportedModel& model) {
  if (fs::exists(source / "taper.json")) {
    throw ConfigError(source.string() + ": is a taper checkpoint already",
                      "use it as it is, or copy the folder");
  }
  HfModel read = read_hf_directory(source);
  model.format = "huggingface";
  model.config = read.config;
  model.tensors = std::move(read.tensors);
  if (!tokenizer.empty()) {
    model.tokenizer_json = read_tokenizer(tokenizer);
    check_vocabulary(model.tokenizer_json, tokenizer.string(), model.config, /*equal=*/false);
    return;
  }
  model.tokenizer_json = std::move(read.tokenizer_json);
  if (model.tokenizer_json.empty()) {
    log_warning(source.string() + ": no tokenizer.json, so the model cannot read or write text");
    return;
  }
  try {
    check_vocabulary(model.tokenizer_json, (source / "tokenizer.json").string(), model.config,
                     /*equal=*/false);
  } catch (const FormatError& error) {
    log_warning(
        fmt::format("the tokenizer is copied as it is, but cannot be used here: {}", error.what()));
  }
}

}  // namespace

ImportedModel import_model(const fs::path& source, const fs::path& tokenizer) {
  if (!fs::exists(source)) throw FormatError(source.string() + ": no such file or directory");
  ImportedModel model;
  if (fs::is_directory(source))
    import_hf(source, tokenizer, model);
  else
    import_llama2c(source, tokenizer, model);
  model.taper.source = Json{{"command", "import"},
                            {"format", model.format},
                            {"name", fs::absolute(source).lexically_normal().filename().string()}};
  return model;
}

}  // namespace taper
