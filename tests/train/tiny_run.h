// A complete training set-up in a temporary folder: byte-level tokenizer without merges, shards of
// a periodic text, and a configuration small enough to train in a second.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "io/token_shard.h"
#include "temp_dir.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "train/config.h"

namespace taper::test {

namespace fs = std::filesystem;

// All 256 bytes and <|endoftext|>. A different `salt` gives another fingerprint.
inline std::string byte_tokenizer_json(const std::string& special = "<|endoftext|>") {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[bytes_to_chars(std::string(1, static_cast<char>(byte)))] = byte;
  vocab[special] = 256;
  Json byte_level = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", true}};
  Json json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = Json::array({{{"id", 256},
                                       {"content", special},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}}});
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = byte_level;
  json["post_processor"] = nullptr;
  json["decoder"] = byte_level;
  json["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"vocab", vocab},
                   {"merges", Json::array()}};
  return json.dump();
}

inline std::vector<int32_t> periodic_ids(int64_t count) {
  const std::string text = "the quick brown fox jumps over the lazy dog; pack my box with jugs. ";
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(i % 191 == 190 ? 256
                                 : static_cast<unsigned char>(
                                       text[static_cast<size_t>((i * 7 + i / 50) % 67)]));
  return ids;
}

inline void write_shard(const fs::path& path, const std::vector<int32_t>& ids, int64_t vocab,
                        uint64_t fingerprint) {
  TokenShardWriter writer(path, vocab, fingerprint);
  writer.append(ids);
  writer.commit();
}

struct TinyRun {
  TempDir folder;
  TrainConfig config;

  fs::path path(const std::string& name) const { return folder.path() / name; }
  fs::path run() const { return path("run"); }

  TinyRun() {
    const std::string json = byte_tokenizer_json();
    write_file_atomically(path("tokenizer.json"), json);
    const auto tokenizer = parse_tokenizer(json, "tokenizer.json");
    write_shard(path("train.tok"), periodic_ids(3000), 257, tokenizer->fingerprint());
    write_shard(path("valid.tok"), periodic_ids(400), 257, tokenizer->fingerprint());
    config.data.train = path("train.tok").string();
    config.model.width = 16;
    config.model.layers = 2;
    config.model.heads = 4;
    config.model.kv_heads = 2;
    config.model.ffn_width = 20;
    config.model.context = 16;
    config.train.steps = 40;
    config.train.batch = 2;
    config.train.accumulate = 2;
    config.train.learning_rate = 5e-3;
    config.train.threads = 1;
    config.train.warmup = 4;
    config.train.valid_windows = 4;
    config.train.keep_checkpoints = 100;
    config.train.checkpoint_every = 10;
    config.taper.scope = "all";
    config.taper.start = 10;
    config.taper.end = 25;
  }
  TrainConfig resolved() const {
    TrainConfig out = config;
    resolve(out, "tiny.toml");
    return out;
  }
  // The same as a file, for the command line.
  fs::path write_config() const {
    TrainConfig out = config;
    write_file_atomically(path("tiny.toml"), train_schema(out).dump());
    return path("tiny.toml");
  }
};

}  // namespace taper::test
