#include "io/token_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "temp_dir.h"

namespace taper {
namespace {

constexpr uint64_t kFingerprint = 0x0123456789abcdefu;

std::vector<int32_t> write_shard(const std::filesystem::path& path, int64_t vocab_size,
                                 int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((i * 7919 + 3) % static_cast<size_t>(vocab_size));
  TokenShardWriter writer(path, vocab_size, kFingerprint);
  const size_t half = ids.size() / 2;
  writer.append(std::span(ids).first(half));
  writer.append(std::span(ids).subspan(half));
  EXPECT_EQ(writer.size(), count);
  writer.commit();
  return ids;
}

class TokenShardOfVocabulary : public testing::TestWithParam<int64_t> {};

TEST_P(TokenShardOfVocabulary, RoundTrip_KeepsIdsAndHeader) {
  const TempDir dir;
  const auto ids = write_shard(dir / "a.tok", GetParam(), 1001);
  const TokenShard shard(dir / "a.tok");
  EXPECT_EQ(shard.size(), 1001);
  EXPECT_EQ(shard.vocab_size(), GetParam());
  EXPECT_EQ(shard.tokenizer_fingerprint(), kFingerprint);
  for (int64_t i = 0; i < shard.size(); ++i) ASSERT_EQ(shard[i], ids[static_cast<size_t>(i)]);
  std::vector<int32_t> narrow(10);
  std::vector<int64_t> wide(10);
  shard.copy(991, narrow);
  shard.copy(991, wide);
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), ids.begin() + 991));
  EXPECT_TRUE(std::equal(wide.begin(), wide.end(), ids.begin() + 991));
  const int64_t width = GetParam() <= 65536 ? 2 : 4;
  EXPECT_EQ(static_cast<int64_t>(std::filesystem::file_size(dir / "a.tok")), 64 + 1001 * width);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TokenShardOfVocabulary,
                         testing::Values(1, 3, 541, 65535, 65536, 65537, 200'000, INT32_MAX));

TEST(TokenShard, NoIds_IsAShardOfSizeZero) {
  const TempDir dir;
  TokenShardWriter(dir / "a.tok", 5, 1).commit();
  const TokenShard shard(dir / "a.tok");
  EXPECT_EQ(shard.size(), 0);
  shard.copy(0, std::span<int32_t>());
}

TEST(TokenShard, WriterWithoutCommit_LeavesNothing) {
  const TempDir dir;
  {
    TokenShardWriter writer(dir / "a.tok", 5, 1);
    writer.append(std::vector<int32_t>{1, 2});
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(TokenShard, RangeOutsideTheShard_IsRefused) {
  const TempDir dir;
  write_shard(dir / "a.tok", 100, 8);
  const TokenShard shard(dir / "a.tok");
  std::vector<int32_t> out(3);
  EXPECT_THROW(shard.copy(6, out), std::logic_error);
  EXPECT_THROW(shard.copy(-1, out), std::logic_error);
  EXPECT_THROW(shard.copy(INT64_MAX, out), std::logic_error);
  EXPECT_THROW(shard[8], std::logic_error);
  EXPECT_THROW(shard[-1], std::logic_error);
}

TEST(TokenShard, AppendedIdBeyondTheVocabulary_IsRefused) {
  const TempDir dir;
  TokenShardWriter writer(dir / "a.tok", 5, 1);
  EXPECT_THROW(writer.append(std::vector<int32_t>{4, 5}), std::logic_error);
  EXPECT_THROW(writer.append(std::vector<int32_t>{-1}), std::logic_error);
}

struct Malformed {
  const char* name;
  std::function<void(std::string&)> damage;  // of a shard of 8 ids, vocabulary 100
  const char* message;
};

template <typename T>
void put(std::string& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

const Malformed kMalformed[] = {
    {"Empty", [](std::string& b) { b.clear(); }, "0 bytes, a token file has at least 64"},
    {"ShortHeader", [](std::string& b) { b.resize(63); }, "63 bytes"},
    {"Magic", [](std::string& b) { b[0] = 't'; }, "does not start with TAPERTOK"},
    {"MagicEnd", [](std::string& b) { b[7] = 0; }, "does not start with TAPERTOK"},
    {"VersionZero", [](std::string& b) { put<uint32_t>(b, 8, 0); }, "version 0"},
    {"VersionTwo", [](std::string& b) { put<uint32_t>(b, 8, 2); }, "version 2"},
    {"WidthZero", [](std::string& b) { put<uint32_t>(b, 12, 0); }, "token width 0"},
    {"WidthThree", [](std::string& b) { put<uint32_t>(b, 12, 3); }, "token width 3"},
    {"WidthOther", [](std::string& b) { put<uint32_t>(b, 12, 4); }, "8 ids of 4 bytes"},
    {"CountLow", [](std::string& b) { put<uint64_t>(b, 16, 7); }, "7 ids of 2 bytes"},
    {"CountHigh", [](std::string& b) { put<uint64_t>(b, 16, 9); }, "9 ids of 2 bytes"},
    {"CountOverflow", [](std::string& b) { put<uint64_t>(b, 16, (uint64_t{1} << 63) + 8); },
     "9223372036854775816 ids"},
    {"OddBytes", [](std::string& b) { b.resize(b.size() + 1); }, "17 bytes follow"},
    {"Truncated", [](std::string& b) { b.resize(b.size() - 2); }, "14 bytes follow"},
    {"VocabularyZero", [](std::string& b) { put<uint64_t>(b, 32, 0); }, "vocabulary size 0"},
    {"VocabularyHuge", [](std::string& b) { put<uint64_t>(b, 32, uint64_t{1} << 31); },
     "vocabulary size 2147483648"},
    {"NotZero", [](std::string& b) { b[63] = 1; }, "bytes 40 to 63 are not zero"},
    {"IdAtVocabulary", [](std::string& b) { put<uint16_t>(b, 64 + 10, 100); },
     "token id 100 at position 5, the vocabulary has 100 entries"},
    {"IdLargest", [](std::string& b) { put<uint16_t>(b, 64, 0xffff); },
     "token id 65535 at position 0"},
};

class MalformedTokenShard : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedTokenShard, Opening_NamesTheFileAndTheFault) {
  const TempDir dir;
  const auto path = dir / "a.tok";
  write_shard(path, 100, 8);
  std::string bytes = read_file(path);
  GetParam().damage(bytes);
  plain_write(path, bytes);
  try {
    const TokenShard shard(path);
    FAIL() << "opened";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, MalformedTokenShard, testing::ValuesIn(kMalformed),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TokenShard, WideIdBeyondInt32_IsFoundAsTooLarge) {
  const TempDir dir;
  write_shard(dir / "a.tok", 200'000, 4);
  std::string bytes = read_file(dir / "a.tok");
  put<uint32_t>(bytes, 64 + 8, 0xffffffff);
  plain_write(dir / "a.tok", bytes);
  EXPECT_THROW(TokenShard(dir / "a.tok"), FormatError);
}

}  // namespace
}  // namespace taper
