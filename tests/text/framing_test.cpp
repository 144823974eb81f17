#include "text/framing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "text/byte_tokenizer.h"

namespace taper {
namespace {

using test::kByteBos;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TokenId kEnd = 0, kA = 'a' + 1, kB = 'b' + 1;

std::unique_ptr<Tokenizer> byte_tokenizer(bool with_bos) {
  return parse_tokenizer(test::byte_tokenizer_json(with_bos), "bytes");
}

std::vector<TokenId> stream(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> all;
  for_each_document(text, kDocumentSeparator, [&](std::string_view document) {
    append_document(tokenizer, document, [&](std::span<const TokenId> ids) {
      all.insert(all.end(), ids.begin(), ids.end());
    });
  });
  return all;
}

TEST(Framing, TokenizerWithBos_BeginsDocumentsAndEndsNone) {
  const auto tokenizer = byte_tokenizer(true);
  ASSERT_EQ(tokenizer->eos_id(), kEnd);  // it has one too, and does not write it
  EXPECT_EQ(framing_of(*tokenizer).before, kByteBos);
  EXPECT_EQ(framing_of(*tokenizer).after, -1);
  EXPECT_THAT(document_ids(*tokenizer, "ab"), ElementsAre(kByteBos, kA, kB));
  EXPECT_THAT(stream(*tokenizer, "ab<|endoftext|>b"), ElementsAre(kByteBos, kA, kB, kByteBos, kB));
}

TEST(Framing, TokenizerWithoutBos_EndsTheDocumentsOfAStreamOnly) {
  const auto tokenizer = byte_tokenizer(false);
  EXPECT_EQ(framing_of(*tokenizer).before, -1);
  EXPECT_EQ(framing_of(*tokenizer).after, kEnd);
  EXPECT_THAT(document_ids(*tokenizer, "ab"), ElementsAre(kA, kB));
  EXPECT_THAT(stream(*tokenizer, "ab<|endoftext|>b"), ElementsAre(kA, kB, kEnd, kB, kEnd));
}

TEST(Framing, EndOfADocument_IsEndOfTextOrTheBeginningOfTheNext) {
  for (const bool with_bos : {false, true}) {
    const auto tokenizer = byte_tokenizer(with_bos);
    EXPECT_TRUE(ends_document(*tokenizer, kEnd));
    EXPECT_EQ(ends_document(*tokenizer, kByteBos), with_bos);
    EXPECT_FALSE(ends_document(*tokenizer, kA));
  }
}

TEST(Documents, SeparatedText_IsTrimmedAndEmptyPartsAreLeftOut) {
  const auto documents = [](std::string_view text, std::string_view separator) {
    std::vector<std::string> all;
    for_each_document(text, separator, [&](std::string_view part) { all.emplace_back(part); });
    return all;
  };
  const std::string_view text = " \n one two\n<|endoftext|>\n\n<|endoftext|>three";
  EXPECT_THAT(documents(text, kDocumentSeparator), ElementsAre("one two", "three"));
  EXPECT_THAT(documents(text, ""), ElementsAre("one two\n<|endoftext|>\n\n<|endoftext|>three"));
  EXPECT_THAT(documents(" \n", kDocumentSeparator), ElementsAre());
}

TEST(CheckIds, IdThatTheModelDoesNotHave_IsNamed) {
  const std::vector<TokenId> ids = {3, 0, 256, 257};
  EXPECT_NO_THROW(check_ids(ids, 258, "t.txt"));
  for (const TokenId bad : {257, -1}) {
    try {
      check_ids(std::vector<TokenId>{0, bad}, 257, "t.txt");
      ADD_FAILURE() << bad;
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr("t.txt: token id " + std::to_string(bad)));
      EXPECT_THAT(error.what(), HasSubstr("257"));
    }
  }
}

}  // namespace
}  // namespace taper
