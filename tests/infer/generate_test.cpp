#include "infer/generate.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "core/error.h"
#include "infer/scripted_model.h"
#include "temp_dir.h"

namespace taper {
namespace {

// Pieces 3, 4, 5, ... follow one another; BOS is followed by piece 3, the last piece by EOS.
class Story {
 public:
  explicit Story(std::vector<std::string> parts, int64_t context = 32) {
    std::vector<std::string> all = {"<unk>", "<s>", "</s>"};
    all.insert(all.end(), parts.begin(), parts.end());
    std::vector<int32_t> script(all.size());
    for (size_t i = 0; i < script.size(); ++i) script[i] = static_cast<int32_t>(i) + 1;
    script[1] = 3;
    script.back() = 2;
    test::write_scripted_model(folder_ / "m", script, 4, 1, 2, context);
    model_.emplace(Checkpoint::open(folder_ / "m"));
    tokenizer_.emplace(all, 1, 2);
  }

  Generation tell(const std::string& prompt, GenerateOptions options) {
    options.sampler.temperature = 0;
    const Prompt start = make_prompt(model_->config(), *tokenizer_, prompt);
    Session session(
        *model_, pool_,
        needed_capacity(model_->config(), std::ssize(start.ids), options.max_new_tokens));
    pieces.clear();
    Generation result = generate(*model_, *tokenizer_, session, start, options,
                                 [this](std::string_view piece) { pieces.emplace_back(piece); });
    EXPECT_EQ(std::accumulate(pieces.begin(), pieces.end(), std::string()), result.text);
    return result;
  }

  const ModelConfig& config() const { return model_->config(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  std::vector<std::string> pieces;  // as they were streamed

 private:
  TempDir folder_;
  ThreadPool pool_{1};
  std::optional<Model> model_;
  std::optional<test::PieceTokenizer> tokenizer_;
};

TEST(Generate, EndOfText_EndsItAndIsNotAmongTheIds) {
  Story story({" Once", " upon", "."});
  const Generation result = story.tell("", {});
  EXPECT_EQ(result.text, "Once upon.");  // the first piece begins a text: no leading space
  EXPECT_EQ(result.ids, (std::vector<TokenId>{3, 4, 5}));
  EXPECT_EQ(result.reason, FinishReason::kEos);
  EXPECT_EQ(story.pieces, (std::vector<std::string>{"Once", " upon", "."}));
}

TEST(Generate, Prompt_IsContinuedWithItsSpaces) {
  Story story({" Once", " upon", "."});
  const Generation result = story.tell(" Once", {});
  EXPECT_EQ(result.text, " upon.");
}

TEST(Generate, PaddingRowsOfTheHead_AreNeverChosen) {
  Story story({"a", "b"});  // the head has four more rows, with the largest logits
  EXPECT_EQ(story.tell("", {}).ids, (std::vector<TokenId>{3, 4}));
}

TEST(Generate, TokenLimit_EndsTheText) {
  Story story({"a", "b", "c", "d"});
  const Generation result = story.tell("", {.max_new_tokens = 2});
  EXPECT_EQ(result.text, "ab");
  EXPECT_EQ(result.reason, FinishReason::kLength);
  const Generation nothing = story.tell("a", {.max_new_tokens = 0});
  EXPECT_EQ(nothing.text, "");
  EXPECT_EQ(nothing.reason, FinishReason::kLength);
}

TEST(Generate, FullContext_EndsTheTextAfterItsLastPossibleToken) {
  Story story({"a", "b", "c", "d", "e", "f", "g", "h"}, 4);
  const Generation result = story.tell("a", {.max_new_tokens = 100});
  // Positions: BOS, a, then two that were generated; a third was chosen and has no place.
  EXPECT_EQ(result.text, "bcd");
  EXPECT_EQ(result.reason, FinishReason::kContext);
}

TEST(Generate, PromptBeyondTheContext_IsAnError) {
  Story story({"a", "b"}, 4);
  EXPECT_THROW(story.tell("abab", {}), ConfigError);
}

TEST(Generate, StopString_EndsBeforeItAndIsNotShown) {
  Story story({"Hello", "\n\nUs", "er", ":", " no"});
  const Generation result = story.tell("", {.stop = {"\n\nUser:"}});
  EXPECT_EQ(result.text, "Hello");
  EXPECT_EQ(result.reason, FinishReason::kStop);
  EXPECT_EQ(story.pieces, (std::vector<std::string>{"Hello"}));
}

TEST(Generate, HalfAStopStringAtTheEnd_IsShown) {
  Story story({"Hello", "\n\nUs"});
  const Generation result = story.tell("", {.stop = {"\n\nUser:"}});
  EXPECT_EQ(result.text, "Hello\n\nUs");
  EXPECT_EQ(result.reason, FinishReason::kEos);
}

TEST(Generate, CharacterOverSeveralTokens_IsStreamedWhole) {
  Story story({"caf", "\xC3", "\xA9 ", "\xE2\x82", "\xAC"});
  EXPECT_EQ(story.tell("", {}).text, "caf\xC3\xA9 \xE2\x82\xAC");
  EXPECT_EQ(story.pieces, (std::vector<std::string>{"caf", "\xC3\xA9 ", "\xE2\x82\xAC"}));
}

TEST(Generate, UnfinishedCharacterAtTheEnd_ShowsReplacementCharacters) {
  Story story({"a", "\xE2\x82"});
  EXPECT_EQ(story.tell("", {}).text, "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Generate, TextThatSpellsASpecialToken_StaysTextUnlessAllowed) {
  Story story({"<", "s", ">"});
  const auto plain = make_prompt(story.config(), story.tokenizer(), "<s>");
  EXPECT_EQ(plain.ids, (std::vector<TokenId>{1, 4, 5}));  // "<" alone is special by its spelling
  const auto allowed =
      make_prompt(story.config(), story.tokenizer(), "</s>", SpecialTokens::kAllow);
  EXPECT_EQ(allowed.ids, (std::vector<TokenId>{1, 2}));
}

TEST(Generate, PromptThatSpellsBos_IsNotGivenASecondOne) {
  Story story({"a"});
  testing::internal::CaptureStderr();
  const auto prompt = make_prompt(story.config(), story.tokenizer(), "<s>a", SpecialTokens::kAllow);
  EXPECT_EQ(prompt.ids, (std::vector<TokenId>{1, 3}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("warning"), std::string::npos);
}

TEST(Generate, EmptyPromptWithoutBos_StartsAfterAnEndOfText) {
  Story story({"a"});
  ModelConfig config = story.config();
  config.bos_id = -1;
  EXPECT_EQ(make_prompt(config, story.tokenizer(), "").ids, (std::vector<TokenId>{2}));
  EXPECT_EQ(make_prompt(config, story.tokenizer(), "a").ids, (std::vector<TokenId>{3}));
  config.eos_id = -1;
  EXPECT_THROW(make_prompt(config, story.tokenizer(), ""), ConfigError);
}

}  // namespace
}  // namespace taper
