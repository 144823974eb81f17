#include "text/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/error.h"
#include "core/file.h"
#include "io/token_shard.h"
#include "temp_dir.h"
#include "text/bpe_trainer.h"
#include "text/llama2c_tokenizer.h"

namespace taper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TokenId kEnd = 0;

class Prepare : public ::testing::Test {
 protected:
  Prepare() {
    WordCounts words;
    words.add("one two three one two three four five");
    const auto spec = train_bpe(words, {.vocab_size = 270}).spec;
    write_file_atomically(folder_ / "tokenizer.json", tokenizer_spec_to_json(spec));
    tokenizer_ = load_tokenizer(folder_ / "tokenizer.json");
    options_.tokenizer = folder_ / "tokenizer.json";
    options_.out = folder_ / "out";
  }

  std::filesystem::path write(const char* name, std::string_view text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  std::vector<TokenId> ids(const char* shard) {
    const TokenShard tokens(options_.out / shard);
    EXPECT_EQ(tokens.tokenizer_fingerprint(), tokenizer_->fingerprint());
    EXPECT_EQ(tokens.vocab_size(), tokenizer_->vocab_size());
    std::vector<TokenId> all(tokens.size());
    tokens.copy(0, all);
    return all;
  }
  // The texts between end-of-text ids; every document ends with one.
  std::vector<std::string> documents(const char* shard) {
    std::vector<std::string> texts;
    std::vector<TokenId> current;
    for (const TokenId id : ids(shard)) {
      if (id != kEnd) {
        current.push_back(id);
        continue;
      }
      texts.push_back(tokenizer_->decode(current));
      current.clear();
    }
    EXPECT_THAT(current, IsEmpty()) << "the last document has no end";
    return texts;
  }
  template <typename ErrorType>
  void expect_error(const std::string& part) {
    try {
      prepare_data(options_);
      ADD_FAILURE() << "no error, expected " << part;
    } catch (const ErrorType& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
    EXPECT_FALSE(std::filesystem::exists(options_.out));
  }

  TempDir folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PrepareOptions options_;
};

TEST_F(Prepare, Documents_AreTrimmedAndEndWithEndOfText) {
  options_.inputs = {write("a.txt", "\n one two \n<|endoftext|>\nthree\n\n<|endoftext|> \n"),
                     write("b.txt", "four<|endoftext|><|endoftext|>  five")};
  const PrepareResult result = prepare_data(options_);
  EXPECT_THAT(documents("train.tok"), ElementsAre("one two", "three", "four", "five"));
  EXPECT_EQ(result.train_documents, 4);
  EXPECT_EQ(result.valid_tokens, 0);
  EXPECT_EQ(result.train_tokens, static_cast<int64_t>(ids("train.tok").size()));
  EXPECT_EQ(result.bytes, 7 + 5 + 4 + 4);
  EXPECT_FALSE(std::filesystem::exists(options_.out / "valid.tok"));
  EXPECT_EQ(read_file(options_.out / "tokenizer.json"), tokenizer_->json());
}

TEST_F(Prepare, Folder_ItsTextFilesInOrderOfName) {
  write("texts/b/2.txt", "two");
  write("texts/a/1.txt", "one");
  write("texts/c.txt", "three");
  write("texts/notes.md", "four");
  options_.inputs = {folder_ / "texts"};
  prepare_data(options_);
  EXPECT_THAT(documents("train.tok"), ElementsAre("one", "two", "three"));
}

TEST_F(Prepare, SpecialTokenOfTheText_StaysTextUnderAnotherSeparator) {
  options_.inputs = {write("a.txt", "one<|endoftext|>two###three")};
  options_.separator = "###";
  prepare_data(options_);
  EXPECT_THAT(documents("train.tok"), ElementsAre("one<|endoftext|>two", "three"));
}

TEST_F(Prepare, HeldOutFile_IsLeftOutOfTheFolderThatHoldsIt) {
  write("texts/a.txt", "one<|endoftext|>two");
  options_.valid = {write("texts/v.txt", "three")};
  options_.inputs = {folder_ / "texts"};
  prepare_data(options_);
  EXPECT_THAT(documents("train.tok"), ElementsAre("one", "two"));
  EXPECT_THAT(documents("valid.tok"), ElementsAre("three"));
}

TEST_F(Prepare, HeldOutFraction_TakesWholeDocumentsSpreadEvenly) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += std::string(50 + (i * i) % 97, 'x') + std::to_string(i) + "\n<|endoftext|>\n";
  options_.inputs = {write("a.txt", text)};
  options_.valid_fraction = 0.05;
  const PrepareResult result = prepare_data(options_);
  EXPECT_EQ(result.train_documents + result.valid_documents, 1000);
  const auto held_out = documents("valid.tok");
  EXPECT_EQ(held_out.size(), 50u);
  const size_t bytes = std::accumulate(
      held_out.begin(), held_out.end(), size_t{0},
      [](size_t sum, const std::string& document) { return sum + document.size(); });
  EXPECT_NEAR(static_cast<double>(bytes) / static_cast<double>(result.bytes), 0.05, 0.005);
  int in_first_half = 0;
  for (const std::string& document : held_out)
    in_first_half += std::stoi(document.substr(document.find_last_of('x') + 1)) < 500;
  EXPECT_NEAR(in_first_half, 25, 1);
}

TEST_F(Prepare, OneDocument_IsCutAtALineEndAndNothingIsLost) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + " one two\n";
  text.pop_back();
  options_.inputs = {write("a.txt", text)};
  options_.valid_fraction = 0.1;
  prepare_data(options_);
  const auto train = documents("train.tok"), valid = documents("valid.tok");
  ASSERT_THAT(train, SizeIs(1));
  ASSERT_THAT(valid, SizeIs(1));
  EXPECT_EQ(train[0] + "\n" + valid[0], text);
  EXPECT_NEAR(static_cast<double>(valid[0].size()) / static_cast<double>(text.size()), 0.1, 0.01);
}

TEST_F(Prepare, OneDocumentOfOneWord_IsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 101; ++i) text += "é";
  options_.inputs = {write("a.txt", text)};
  options_.valid_fraction = 0.25;
  prepare_data(options_);
  const auto train = documents("train.tok"), valid = documents("valid.tok");
  ASSERT_THAT(valid, SizeIs(1));
  EXPECT_EQ(train[0] + valid[0], text);
  EXPECT_EQ(valid[0].size() % 2, 0u);
}

TEST_F(Prepare, LongDocument_EncodedInPartsHasTheIdsOfTheWhole) {
  std::string text = "x";
  while (text.size() < (size_t{3} << 20)) text += " one  two\n\nthree 4'll ";
  text += "end";
  options_.inputs = {write("a.txt", text)};
  prepare_data(options_);
  auto expected = tokenizer_->encode(text);
  expected.push_back(kEnd);
  EXPECT_EQ(ids("train.tok"), expected);
}

TEST_F(Prepare, SecondRunWithoutValidation_RemovesTheOldHeldOutTokens) {
  options_.inputs = {write("a.txt", "one two three<|endoftext|>four")};
  options_.valid_fraction = 0.5;
  prepare_data(options_);
  EXPECT_TRUE(std::filesystem::exists(options_.out / "valid.tok"));
  options_.valid_fraction = 0;
  prepare_data(options_);
  EXPECT_FALSE(std::filesystem::exists(options_.out / "valid.tok"));
}

TEST_F(Prepare, TokenizerWithBos_WritesItBeforeEachDocument) {
  std::string file(4, '\0');
  file[0] = 7;
  const auto put = [&](const std::string& text, float score) {
    const auto length = static_cast<int32_t>(text.size());
    file.append(reinterpret_cast<const char*>(&score), 4);
    file.append(reinterpret_cast<const char*>(&length), 4);
    file += text;
  };
  for (const char* special : {"<unk>", "<s>", "</s>"}) put(special, 0);
  for (int byte = 0; byte < 256; ++byte) put(byte_token(static_cast<unsigned char>(byte)), 0);
  put(" ", -1);
  put("a", -2);
  write("sp.json", llama2c_tokenizer_to_json(std::as_bytes(std::span(file)), "test"));
  options_.tokenizer = folder_ / "sp.json";
  tokenizer_ = load_tokenizer(options_.tokenizer);
  options_.inputs = {write("a.txt", "a<|endoftext|>aa")};
  prepare_data(options_);
  EXPECT_THAT(ids("train.tok"), ElementsAre(1, 259, 260, 1, 259, 260, 260));
}

TEST_F(Prepare, BadInput_IsAnErrorAndLeavesNothing) {
  options_.inputs = {folder_ / "absent.txt"};
  expect_error<FormatError>("absent.txt");
  std::filesystem::create_directories(folder_ / "empty");
  options_.inputs = {folder_ / "empty"};
  expect_error<FormatError>("no .txt file");
  options_.inputs = {write("blank.txt", " \n<|endoftext|>\n")};
  expect_error<FormatError>("no text");
  options_.inputs = {};
  expect_error<ConfigError>("no input");
  options_.inputs = {write("a.txt", "one")};
  options_.valid_fraction = 1.5;
  expect_error<ConfigError>("1.5");
  options_.valid_fraction = 0;
  options_.valid = {write("v.txt", "")};
  expect_error<FormatError>("held-out");
  options_.valid_fraction = 0.5;
  expect_error<ConfigError>("both");
  options_.valid = {folder_ / "a.txt"};  // all of the input
  options_.valid_fraction = 0;
  expect_error<FormatError>("no text to train on");
}

TEST_F(Prepare, OutputPathThatIsAFile_IsAResourceError) {
  options_.inputs = {write("a.txt", "one")};
  options_.out = write("file", "kept");
  EXPECT_THROW(prepare_data(options_), ResourceError);
  EXPECT_EQ(read_file(folder_ / "file"), "kept");
}

}  // namespace
}  // namespace taper
