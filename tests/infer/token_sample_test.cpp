#include "infer/token_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "infer/scripted_model.h"
#include "model/error_matchers.h"

namespace taper {
namespace {

using testing::ElementsAre;

ModelConfig config_of(int64_t vocab_size) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.context = 64;
  return config;
}

TEST(SampleText, Documents_StandAloneAsTheTokenizerBeginsThem) {
  const std::vector<std::string> pieces = {"<s>", "</s>", "a", "b"};
  const test::PieceTokenizer with_bos(pieces, 0, 1), without(pieces, -1, 1);
  ModelConfig config = config_of(4);
  config.bos_id = 3;  // the tokenizer decides, not config.json
  const std::string text = "abaab<|endoftext|>\nba\n";
  EXPECT_THAT(sample_text(text, "t", config, with_bos, {.window = 4}).sequences,
              ElementsAre(ElementsAre(0, 2, 3, 2), ElementsAre(2, 3), ElementsAre(0, 3, 2)));
  EXPECT_THAT(sample_text(text, "t", config, without, {.window = 4, .max_tokens = 6}).sequences,
              ElementsAre(ElementsAre(2, 3, 2, 2), ElementsAre(3), ElementsAre(3)));
}

TEST(SampleText, WithoutTextOrBeyondTheVocabulary_IsAnError) {
  const test::PieceTokenizer tokenizer({"a", "b", "<s>"}, 2, -1);
  EXPECT_ERROR(sample_text(" <|endoftext|>\n", "t", config_of(3), tokenizer, {}), FormatError,
               "t: holds no text");
  EXPECT_ERROR(sample_text("ab", "t", config_of(2), tokenizer, {}), FormatError, "t: token id 2",
               "vocabulary of 2");
}

}  // namespace
}  // namespace taper
