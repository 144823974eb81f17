#include "text/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "io/token_shard.h"
#include "text/corpus.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

// Shares documents between training and validation: every document adds the fraction to what
// validation is owed, and goes to it when that reaches a half. Whether a document is long or short
// makes no difference, so that the held-out ones are like the others.
class Holdout {
 public:
  Holdout(double fraction, int64_t total_bytes)
      : fraction_(fraction), share_(fraction * static_cast<double>(total_bytes)) {}

  bool larger_than_share(std::string_view document) const {
    return fraction_ > 0 && static_cast<double>(document.size()) > share_;
  }
  bool takes_next() {
    owed_ += fraction_;
    if (fraction_ <= 0 || owed_ < 0.5) return false;
    owed_ -= 1;
    return true;
  }
  // Where the held-out end of a large document begins.
  size_t cut(std::string_view document) const {
    const auto target = static_cast<size_t>((1 - fraction_) * static_cast<double>(document.size()));
    for (const char end : {'\n', ' '}) {
      const size_t before = document.rfind(end, target), after = document.find(end, target);
      const bool has_before = before != std::string_view::npos && before > 0;
      const bool has_after = after != std::string_view::npos;
      if (!has_before && !has_after) continue;
      if (has_before && (!has_after || target - before <= after - target)) return before;
      return after;
    }
    size_t position = std::max<size_t>(target, 1);
    while (position < document.size() &&
           (static_cast<unsigned char>(document[position]) & 0xC0u) == 0x80u)
      ++position;
    return position;
  }

 private:
  double fraction_, share_, owed_ = 0;
};

class ShardMaker {
 public:
  ShardMaker(const fs::path& path, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), writer_(path, tokenizer.vocab_size(), tokenizer.fingerprint()) {}

  void add(std::string_view document) {
    document = trim_space(document);
    if (document.empty()) return;
    bytes_ += static_cast<int64_t>(document.size());
    ++documents_;
    append_document(tokenizer_, document,
                    [this](std::span<const TokenId> ids) { writer_.append(ids); });
  }
  int64_t tokens() const { return writer_.size(); }
  int64_t documents() const { return documents_; }
  int64_t bytes() const { return bytes_; }
  void commit() { writer_.commit(); }

 private:
  const Tokenizer& tokenizer_;
  TokenShardWriter writer_;
  int64_t documents_ = 0, bytes_ = 0;
};

// The output folder; one made here and left empty is removed again.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& path) : path_(path) {
    std::error_code error;
    created_ = fs::create_directories(path, error);
    if (error || !fs::is_directory(path))
      throw ResourceError(
          fmt::format("{}: cannot make the folder: {}", path.string(),
                      error ? error.message() : "a file of this name is in the way"));
  }
  ~OutputFolder() {
    std::error_code ignored;
    if (created_) fs::remove(path_, ignored);  // fails, as it should, when there are files in it
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
  bool created_ = false;
};

void check_options(const PrepareOptions& options) {
  if (options.inputs.empty()) throw ConfigError("no input text", "name files with --input");
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1))
    throw ConfigError(fmt::format("the held-out fraction is {}, expected 0 to less than 1",
                                  options.valid_fraction));
  if (options.valid_fraction > 0 && !options.valid.empty())
    throw ConfigError("both held-out files and a held-out fraction are given", "give one of them");
}

std::vector<fs::path> without(std::vector<fs::path> files, const std::vector<fs::path>& held_out) {
  std::erase_if(files, [&](const fs::path& file) {
    return std::any_of(held_out.begin(), held_out.end(), [&](const fs::path& other) {
      std::error_code ignored;
      return fs::equivalent(file, other, ignored);
    });
  });
  return files;
}

}  // namespace

PrepareResult prepare_data(const PrepareOptions& options) {
  check_options(options);
  const auto tokenizer = load_tokenizer(options.tokenizer);
  if (const Framing framing = framing_of(*tokenizer); framing.before < 0 && framing.after < 0)
    log_warning("the tokenizer has no token that begins or ends a text: documents run together");
  const std::vector<fs::path> valid_files = corpus_files(options.valid);
  const std::vector<fs::path> train_files = without(corpus_files(options.inputs), valid_files);
  const int64_t train_size = total_file_size(train_files);

  const OutputFolder out(options.out);
  ShardMaker train(out / "train.tok", *tokenizer), valid(out / "valid.tok", *tokenizer);
  Holdout holdout(options.valid_fraction, train_size);
  Progress progress("encoding", train_size + total_file_size(valid_files), "bytes");
  int64_t done = 0;
  const auto read = [&](const std::vector<fs::path>& files, auto&& use) {
    for (const fs::path& path : files) {
      const MappedText file(path);
      for_each_document(
          file.text(), options.separator,
          [&](std::string_view document) {
            use(document);
            progress.update(done + file.used_up_to(document.substr(document.size())));
          });
      done += static_cast<int64_t>(file.text().size());
    }
  };
  read(
      train_files,
      [&](std::string_view document) {
        if (holdout.larger_than_share(document)) {
          const size_t cut = holdout.cut(document);
          train.add(document.substr(0, cut));
          valid.add(document.substr(cut));
        } else {
          (holdout.takes_next() ? valid : train).add(document);
        }
      });
  read(valid_files, [&](std::string_view document) { valid.add(document); });
  progress.update(done);

  const bool wants_valid = options.valid_fraction > 0 || !options.valid.empty();
  if (train.documents() == 0)
    throw FormatError("the input holds no text to train on", "check the files named with --input");
  if (wants_valid && valid.documents() == 0)
    throw FormatError("the held-out share holds no text", "hold out more, or give more input");
  throw_if_interrupted();
  train.commit();
  if (wants_valid) valid.commit();
  write_file_atomically(out / "tokenizer.json", tokenizer->json());
  if (!wants_valid && fs::remove(out / "valid.tok"))  // of an earlier preparation
    log_info("removed the held-out tokens of an earlier run");
  return {train.tokens(),
          valid.tokens(),
          train.documents(),
          valid.documents(),
          train.bytes() + valid.bytes(),
          tokenizer->vocab_size()};
}

}  // namespace taper
