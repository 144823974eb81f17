#include "text/gpt2_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "shared_data.h"
#include "temp_dir.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace taper {
namespace {

using ::testing::HasSubstr;

class Gpt2Vocabulary : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto data = shared_data();
    if (!data) GTEST_SKIP() << kNoSharedData;
    folder_ = *data / "gpt2-tokenizer";
    tokenizer_ = parse_tokenizer(
        gpt2_files_to_json(folder_ / "encoder.json", folder_ / "vocab.bpe"), "gpt2");
  }
  std::filesystem::path folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Gpt2Vocabulary, SizeAndEndOfText_AreAsPublished) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_EQ(tokenizer_->eos_id(), 50256);
  EXPECT_EQ(tokenizer_->bos_id(), -1);
}

TEST_F(Gpt2Vocabulary, PublishedInputs_GiveThePublishedIds) {
  const std::string inputs = read_file(folder_ / "ggml-vocab-gpt-2.gguf.inp");
  std::istringstream outputs(read_file(folder_ / "ggml-vocab-gpt-2.gguf.out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  int cases = 0;
  for (size_t begin = 0; begin < inputs.size();) {
    const size_t end = inputs.find(separator, begin);
    std::string line;
    ASSERT_TRUE(std::getline(outputs, line));
    std::istringstream numbers(line);
    std::vector<TokenId> expected;
    for (TokenId id; numbers >> id;) expected.push_back(id);
    const std::string text = inputs.substr(begin, end - begin);
    EXPECT_EQ(tokenizer_->encode(text), expected) << text;
    ++cases;
    if (end == std::string::npos) break;
    begin = end + separator.size();
  }
  EXPECT_GT(cases, 30);
}

TEST_F(Gpt2Vocabulary, ItsTokenizerJson_ReadsBackTheSame) {
  const auto again = parse_tokenizer(tokenizer_->json(), "again");
  EXPECT_EQ(again->fingerprint(), tokenizer_->fingerprint());
}

TEST(Gpt2Files, MergeOfUnknownParts_NamesIt) {
  TempDir folder;
  std::string vocab = "{";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string chars = bytes_to_chars(std::string(1, static_cast<char>(byte)));
    vocab += Json(chars).dump() + ":" + std::to_string(byte) + ",";
  }
  vocab += "\"ab\":256}";
  write_file_atomically(folder / "vocab.json", vocab);
  write_file_atomically(folder / "merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(parse_tokenizer(gpt2_files_to_json(folder / "vocab.json", folder / "merges.txt"), "t")
                ->encode("ab"),
            std::vector<TokenId>{256});
  write_file_atomically(folder / "merges.txt", "#version: 0.2\na b\nab c\n");
  try {
    gpt2_files_to_json(folder / "vocab.json", folder / "merges.txt");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("merges[1]"));
    EXPECT_THAT(error.what(), HasSubstr("abc"));
  }
}

}  // namespace
}  // namespace taper
