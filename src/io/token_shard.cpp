#include "io/token_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace taper {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are used where they lie");

constexpr char kMagic[8] = {'T', 'A', 'P', 'E', 'R', 'T', 'O', 'K'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t width;
  uint64_t count;
  uint64_t fingerprint;
  uint64_t vocab_size;
  char zero[24];
};
static_assert(sizeof(Header) == 64);

template <typename... Args>
[[noreturn]] void fail(const std::filesystem::path& path, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw FormatError(path.string() + ": " + fmt::format(format, std::forward<Args>(args)...),
                    "create the token file again with: taper data prepare");
}

// The header is 64 bytes and a map starts at a page, so ids are aligned.
template <typename Id>
std::span<const Id> ids_of(const MappedFile& file, int64_t count) {
  const std::byte* begin = file.bytes().data() + sizeof(Header);
  return {reinterpret_cast<const Id*>(begin), static_cast<size_t>(count)};
}

template <typename Id>
void check_ids(const MappedFile& file, int64_t count, int64_t vocab_size) {
  const std::span<const Id> ids = ids_of<Id>(file, count);
  if (ids.empty()) return;
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (static_cast<int64_t>(*largest) >= vocab_size) {
    fail(file.path(), "token id {} at position {}, the vocabulary has {} entries", *largest,
         largest - ids.begin(), vocab_size);
  }
}

template <typename Id, typename Out>
void copy_ids(const MappedFile& file, int64_t begin, std::span<Out> out) {
  const Id* ids = ids_of<Id>(file, 0).data() + begin;
  std::copy(ids, ids + out.size(), out.begin());
}

int width_for(int64_t vocab_size) {
  return vocab_size <= int64_t{std::numeric_limits<uint16_t>::max()} + 1 ? 2 : 4;
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < sizeof(Header))
    fail(path, "{} bytes, a token file has at least {}", bytes.size(), sizeof(Header));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (!std::equal(std::begin(kMagic), std::end(kMagic), header.magic))
    fail(path, "not a token file: it does not start with TAPERTOK");
  if (header.version != kVersion)
    fail(path, "token file version {}, this program reads version {}", header.version, kVersion);
  if (header.width != 2 && header.width != 4)
    fail(path, "token width {} at offset 12, expected 2 or 4 bytes", header.width);
  constexpr int64_t kMaxVocabulary = int64_t{std::numeric_limits<int32_t>::max()};
  if (header.vocab_size == 0 || header.vocab_size > kMaxVocabulary) {
    fail(path, "vocabulary size {} at offset 32, expected 1 to {}", header.vocab_size,
         kMaxVocabulary);
  }
  if (std::any_of(std::begin(header.zero), std::end(header.zero), [](char c) { return c != 0; }))
    fail(path, "bytes 40 to 63 are not zero");
  const uint64_t id_bytes = bytes.size() - sizeof(Header);
  if (header.count > id_bytes / header.width || header.count * header.width != id_bytes) {
    fail(path, "{} ids of {} bytes promised at offset 16, {} bytes follow the header", header.count,
         header.width, id_bytes);
  }
  count_ = static_cast<int64_t>(header.count);
  vocab_size_ = static_cast<int64_t>(header.vocab_size);
  width_ = static_cast<int>(header.width);
  fingerprint_ = header.fingerprint;
  if (width_ == 2)
    check_ids<uint16_t>(file_, count_, vocab_size_);
  else
    check_ids<uint32_t>(file_, count_, vocab_size_);
}

int32_t TokenShard::operator[](int64_t index) const {
  TAPER_CHECK(index >= 0 && index < count_);
  const auto at = static_cast<size_t>(index);
  return width_ == 2 ? ids_of<uint16_t>(file_, count_)[at]
                     : static_cast<int32_t>(ids_of<uint32_t>(file_, count_)[at]);
}

void TokenShard::copy(int64_t begin, std::span<int32_t> out) const {
  TAPER_CHECK(begin >= 0 && begin <= count_ && static_cast<int64_t>(out.size()) <= count_ - begin);
  width_ == 2 ? copy_ids<uint16_t>(file_, begin, out) : copy_ids<uint32_t>(file_, begin, out);
}

void TokenShard::copy(int64_t begin, std::span<int64_t> out) const {
  TAPER_CHECK(begin >= 0 && begin <= count_ && static_cast<int64_t>(out.size()) <= count_ - begin);
  width_ == 2 ? copy_ids<uint16_t>(file_, begin, out) : copy_ids<uint32_t>(file_, begin, out);
}

void TokenShard::will_need(int64_t begin, int64_t count) const {
  TAPER_CHECK(begin >= 0 && begin <= count_ && count >= 0 && count <= count_ - begin);
  file_.will_need(sizeof(Header) + static_cast<size_t>(begin * width_),
                  sizeof(Header) + static_cast<size_t>((begin + count) * width_));
}

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, int64_t vocab_size,
                                   uint64_t fingerprint)
    : file_(path),
      width_(width_for(vocab_size)),
      vocab_size_(vocab_size),
      fingerprint_(fingerprint) {
  TAPER_CHECK(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max());
  const Header blank = {};
  file_.write(&blank, sizeof(blank));
}

void TokenShardWriter::append(std::span<const int32_t> ids) {
  for (const int32_t id : ids) TAPER_CHECK(id >= 0 && id < vocab_size_);
  if (width_ == 4) {
    file_.write(ids.data(), ids.size_bytes());
  } else {
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    file_.write(narrow.data(), narrow.size() * sizeof(uint16_t));
  }
  count_ += static_cast<int64_t>(ids.size());
}

void TokenShardWriter::commit() {
  Header header = {};
  std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
  header.version = kVersion;
  header.width = static_cast<uint32_t>(width_);
  header.count = static_cast<uint64_t>(count_);
  header.fingerprint = fingerprint_;
  header.vocab_size = static_cast<uint64_t>(vocab_size_);
  file_.write_at(0, &header, sizeof(header));
  file_.commit();
}

}  // namespace taper
