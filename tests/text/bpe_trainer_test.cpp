#include "text/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "text/framing.h"
#include "text/goldens.h"

namespace taper {
namespace {

using ::testing::HasSubstr;

BpeTrainerResult train(std::string_view text, BpeTrainerOptions options) {
  WordCounts words;
  words.add(text);
  return train_bpe(words, options);
}

std::vector<std::string> spelled(const TokenizerSpec& spec) {
  std::vector<std::string> merges;
  for (const BpeMerge& merge : spec.merges)
    merges.push_back(spec.vocab[merge.left] + " " + spec.vocab[merge.right]);
  return merges;
}

TEST(BpeTrainer, GoldenCorpus_EqualsHuggingFacesTrainer) {
  const std::string text = read_file(golden_path("corpus.txt"));
  WordCounts words;
  for_each_document(text, kDocumentSeparator,
                    [&](std::string_view document) { words.add(document); });
  const auto result = train_bpe(words, {.vocab_size = 700});
  const TokenizerSpec theirs =
      parse_tokenizer_json(read_file(golden_path("hf_trained.json")), "hf_trained.json");
  EXPECT_EQ(result.spec.vocab, theirs.vocab);
  EXPECT_EQ(spelled(result.spec), spelled(theirs));
  EXPECT_EQ(tokenizer_spec_to_json(result.spec), tokenizer_spec_to_json(theirs));
}

TEST(BpeTrainer, TokensCounted_EqualTheEncodersTokens) {
  const std::string text = read_file(golden_path("corpus.txt"));
  const auto result = train(text, {.vocab_size = 600});
  const auto tokenizer = make_tokenizer(result.spec, "trained");
  EXPECT_EQ(result.bytes, static_cast<int64_t>(text.size()));
  EXPECT_EQ(result.tokens, static_cast<int64_t>(tokenizer->encode(text).size()));
}

TEST(BpeTrainer, EqualCounts_SmallestIdsFirst) {
  // "cd" and "ab" occur equally often; a comes before c.
  const auto result = train("cd ab cd ab", {.vocab_size = 258});
  ASSERT_EQ(result.spec.merges.size(), 1u);
  EXPECT_EQ(spelled(result.spec)[0], "a b");
}

TEST(BpeTrainer, TooLittleText_StopsEarlyWithASmallerVocabulary) {
  const auto result = train("ab ab", {.vocab_size = 1000});
  EXPECT_LT(result.spec.vocab.size(), 262u);
  EXPECT_GE(result.spec.vocab.size(), 258u);
  const auto empty = train("", {.vocab_size = 1000});
  EXPECT_EQ(empty.spec.vocab.size(), 257u);
}

TEST(BpeTrainer, VocabularyWithoutRoomForTheBytes_IsAConfigError) {
  try {
    train("text", {.vocab_size = 256});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("256"));
    EXPECT_THAT(error.hint(), HasSubstr("257"));
  }
  EXPECT_EQ(train("text", {.vocab_size = 257}).spec.vocab.size(), 257u);
}

TEST(BpeTrainer, MultiByteAndInvalidText_TrainsAndRoundTrips) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "日本語 \xFF\xFE über \xE2\x82 😀 ";
  const auto result = train(text, {.vocab_size = 300});
  const auto tokenizer = make_tokenizer(result.spec, "trained");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 3);
}

TEST(BpeTrainer, OneVeryLongWord_IsCountedInPartsOfWholeCharacters) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "語";
  const auto result = train(text, {.vocab_size = 270});
  EXPECT_EQ(result.bytes, static_cast<int64_t>(text.size()));
  const auto tokenizer = make_tokenizer(result.spec, "trained");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_LT(tokenizer->encode(text).size(), 100u);
}

TEST(BpeTrainer, EndOfTextIsTheFirstEntryAndNeverLearned) {
  const auto result = train("<|endoftext|> <|endoftext|> <|endoftext|>", {.vocab_size = 270});
  EXPECT_EQ(result.spec.vocab[0], "<|endoftext|>");
  const auto tokenizer = make_tokenizer(result.spec, "trained");
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_EQ(tokenizer->bos_id(), -1);
  EXPECT_THAT(tokenizer->encode("<|endoftext|>"), ::testing::Not(::testing::Contains(0)));
  EXPECT_EQ(tokenizer->encode("<|endoftext|>", SpecialTokens::kAllow), std::vector<TokenId>{0});
}

}  // namespace
}  // namespace taper
