// Token shards: one long stream of token ids, memory-mapped.
//
// Layout, little-endian: 8 bytes magic "TAPERTOK", uint32 version (1), uint32 token width in bytes
// (2 or 4), uint64 count, uint64 tokenizer fingerprint, uint64 vocabulary size, 24 bytes zero; then
// count ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "core/file.h"

namespace taper {

class TokenShard {
 public:
  // FormatError when magic, version, width, count or an id beyond the vocabulary is wrong (all ids
  // are checked once, at opening).
  explicit TokenShard(const std::filesystem::path& path);

  int64_t size() const { return count_; }
  int64_t vocab_size() const { return vocab_size_; }
  uint64_t tokenizer_fingerprint() const { return fingerprint_; }
  const std::filesystem::path& path() const { return file_.path(); }
  int32_t operator[](int64_t index) const;
  // Copies ids [begin, begin + out.size()) to out; the range must lie inside the shard.
  void copy(int64_t begin, std::span<int32_t> out) const;
  void copy(int64_t begin, std::span<int64_t> out) const;
  // Ids [begin, begin + count) are read from the disk in the background.
  void will_need(int64_t begin, int64_t count) const;

 private:
  MappedFile file_;
  int64_t count_ = 0, vocab_size_ = 0;
  int width_ = 2;
  uint64_t fingerprint_ = 0;
};

class TokenShardWriter {
 public:
  TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size, uint64_t fingerprint);
  void append(std::span<const int32_t> ids);
  int64_t size() const { return count_; }
  void commit();  // the shard appears under its name only now

 private:
  AtomicFile file_;
  int width_;
  int64_t count_ = 0;
  int64_t vocab_size_;
  uint64_t fingerprint_;
};

}  // namespace taper
