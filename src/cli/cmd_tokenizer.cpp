// taper tokenizer train|encode|decode.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/file.h"
#include "text/bpe_trainer.h"
#include "text/corpus.h"
#include "text/framing.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  std::vector<fs::path> inputs;
  BpeTrainerOptions trainer;
  std::string separator{kDocumentSeparator};
  fs::path out;
  bool json = false;
};

struct EncodeOptions {
  fs::path tokenizer, file;
  std::string text;
  bool from_file = false, allow_special = false, json = false;
};

struct DecodeOptions {
  fs::path tokenizer;
  std::vector<int64_t> ids;
  bool json = false;
};

void run_train(const TrainOptions& options) {
  check_trainer_options(options.trainer);
  const auto files = corpus_files(options.inputs);
  const WordCounts words = count_words(files, options.separator);
  if (words.empty())
    throw FormatError("the input holds no text", "check the files named with --input");
  const BpeTrainerResult result = train_bpe(words, options.trainer);
  const auto tokenizer = make_tokenizer(result.spec, options.out.string());
  write_file_atomically(options.out, tokenizer->json());
  const double bytes_per_token =
      static_cast<double>(result.bytes) / static_cast<double>(std::max<int64_t>(result.tokens, 1));
  if (options.json) {
    print_json({{"vocab_size", tokenizer->vocab_size()},
                {"merges", result.spec.merges.size()},
                {"bytes", result.bytes},
                {"tokens", result.tokens},
                {"bytes_per_token", bytes_per_token},
                {"fingerprint", fmt::format("{:016x}", tokenizer->fingerprint())},
                {"out", options.out.string()}});
    return;
  }
  print_text(fmt::format("{}: {} entries, {:.3f} bytes a token on {} bytes of text\n",
                         options.out.string(), tokenizer->vocab_size(), bytes_per_token,
                         result.bytes));
}

void run_encode(const EncodeOptions& options) {
  const auto tokenizer = load_tokenizer(options.tokenizer);
  const std::string text = options.from_file ? read_file(options.file) : options.text;
  const auto ids = tokenizer->encode(
      text, options.allow_special ? SpecialTokens::kAllow : SpecialTokens::kAsText);
  if (options.json) {
    print_json({{"ids", ids}, {"count", ids.size()}});
    return;
  }
  print_text(fmt::format("{}\n", fmt::join(ids, " ")));
}

void run_decode(const DecodeOptions& options) {
  const auto tokenizer = load_tokenizer(options.tokenizer);
  std::vector<TokenId> ids;
  for (const int64_t id : options.ids) {
    if (id < 0 || id >= tokenizer->vocab_size())
      throw ConfigError(fmt::format("id {} is not in the vocabulary, which has ids 0..{}", id,
                                    tokenizer->vocab_size() - 1));
    ids.push_back(static_cast<TokenId>(id));
  }
  const std::string text = tokenizer->decode(ids);
  if (options.json)
    print_json({{"text", text}});
  else
    print_text(text + "\n");
}

void add_tokenizer(CLI::App& app, fs::path& path) {
  app.add_option("--tokenizer", path, "tokenizer.json")->type_name(kFile)->required();
}

void setup_tokenizer_train(CLI::App& group) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App& app = add_subcommand(group, "train", "learn a byte-level BPE vocabulary from text");
  app.add_option("--input", options->inputs, "text files, or folders of .txt files")
      ->type_name(kFile)
      ->required();
  app.add_option("--vocab-size", options->trainer.vocab_size,
                 "entries, the 256 bytes and <|endoftext|> included")
      ->required();
  app.add_option("--out", options->out, "tokenizer.json to write")->type_name(kFile)->required();
  app.add_option("--min-frequency", options->trainer.min_frequency,
                 "pairs that occur less often are not merged")
      ->check(CLI::PositiveNumber);
  app.add_option("--separator", options->separator,
                 "what separates documents; it is not learned from");
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "Examples:\n  taper tokenizer train --input book.txt --vocab-size 4096 --out tokenizer.json");
  app.callback([options] { run_train(*options); });
}

void setup_encode(CLI::App& group) {
  auto options = std::make_shared<EncodeOptions>();
  CLI::App& app = add_subcommand(group, "encode", "print the ids of a text");
  add_tokenizer(app, options->tokenizer);
  CLI::Option_group& source = *app.add_option_group("Text");
  source.add_option("--text", options->text, "the text itself; this or --file");
  CLI::Option* file =
      source.add_option("--file", options->file, "a file that holds the text")->type_name(kFile);
  source.require_option(1);
  app.add_flag("--allow-special", options->allow_special,
               "text that spells a special token becomes that token");
  add_json(app, options->json);
  app.footer(
      "Examples:\n  taper tokenizer encode --tokenizer tokenizer.json --text 'Once upon a time'");
  app.callback([options, file] {
    options->from_file = file->count() > 0;
    run_encode(*options);
  });
}

void setup_decode(CLI::App& group) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App& app = add_subcommand(group, "decode", "print the text of ids");
  add_tokenizer(app, options->tokenizer);
  app.add_option("IDS", options->ids, "token ids")->required();
  add_json(app, options->json);
  app.footer("Examples:\n  taper tokenizer decode --tokenizer tokenizer.json 734 12 9");
  app.callback([options] { run_decode(*options); });
}

}  // namespace

void setup_tokenizer(CLI::App& parent) {
  CLI::App& group = add_command_group(parent, kPrepare, "tokenizer", "make and use tokenizers");
  setup_tokenizer_train(group);
  setup_encode(group);
  setup_decode(group);
}

}  // namespace taper
