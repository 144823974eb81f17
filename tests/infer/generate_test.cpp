#include "infer/generate.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "core/error.h"
#include "infer/scripted_model.h"
#include "model/error_matchers.h"
#include "temp_dir.h"

namespace taper {
namespace {

// Pieces 3, 4, 5, ... follow one another; BOS is followed by piece 3, the last piece by EOS.
class Story {
 public:
  explicit Story(std::vector<std::string> parts, int64_t context = 32, int64_t config_eos = 2,
                 TokenId tokenizer_eos = 2) {
    std::vector<std::string> all = {"<unk>", "<s>", "</s>"};
    all.insert(all.end(), parts.begin(), parts.end());
    std::vector<int32_t> script(all.size());
    for (size_t i = 0; i < script.size(); ++i) script[i] = static_cast<int32_t>(i) + 1;
    script[1] = 3;
    script.back() = 2;
    test::write_scripted_model(folder_ / "m", script, 4, 1, config_eos, context);
    model_.emplace(Checkpoint::open(folder_ / "m"));
    tokenizer_.emplace(all, 1, tokenizer_eos);
  }

  Generation tell(const std::string& prompt, GenerateOptions options) {
    return tell_with(*tokenizer_, prompt, std::move(options));
  }
  Generation tell_with(const Tokenizer& tokenizer, const std::string& prompt,
                       GenerateOptions options) {
    options.sampler.temperature = 0;
    const Prompt start = make_prompt(model_->config(), tokenizer, prompt);
    Session session(
        *model_, pool_,
        needed_capacity(model_->config(), std::ssize(start.ids), options.max_new_tokens));
    pieces.clear();
    Generation result = generate(*model_, tokenizer, session, start, options,
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

TEST(Generate, EndOfTextThatOnlyConfigOrTokenizerKnows_EndsItToo) {
  Story by_config({"a", "b"}, 32, /*config_eos=*/2, /*tokenizer_eos=*/-1);
  EXPECT_EQ(by_config.tell("", {}).ids, (std::vector<TokenId>{3, 4}));
  Story by_tokenizer({"a", "b"}, 32, /*config_eos=*/-1, /*tokenizer_eos=*/2);
  EXPECT_EQ(by_tokenizer.tell("", {}).ids, (std::vector<TokenId>{3, 4}));
}

TEST(Generate, BeginningOfAnotherText_EndsIt) {
  Story story({"a", "b"}, 32, /*config_eos=*/-1, /*tokenizer_eos=*/-1);  // b, </s>, a, b, ...
  const Generation endless = story.tell("", {.max_new_tokens = 7});
  EXPECT_EQ(endless.reason, FinishReason::kLength);
  const test::PieceTokenizer begins_with_b({"<unk>", "<s>", "</s>", "a", "<b>"}, 4, -1);
  EXPECT_EQ(story.tell_with(begins_with_b, "a", {.max_new_tokens = 7}).reason, FinishReason::kEos);
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
  ModelConfig config;
  config.vocab_size = 4;
  config.bos_id = 1;  // the tokenizer decides, not config.json
  const std::vector<std::string> pieces = {"<unk>", "<s>", "</s>", "a"};
  const test::PieceTokenizer without_bos(pieces, -1, 2), without_any(pieces, -1, -1);
  EXPECT_EQ(make_prompt(config, without_bos, "").ids, (std::vector<TokenId>{2}));
  EXPECT_EQ(make_prompt(config, without_bos, "a").ids, (std::vector<TokenId>{3}));
  EXPECT_THROW(make_prompt(config, without_any, ""), ConfigError);
}

TEST(Generate, BosThatTheModelDoesNotHave_IsAnError) {
  ModelConfig config;
  config.vocab_size = 4;
  const test::PieceTokenizer tokenizer({"<unk>", "</s>", "a", "b", "<s>"}, 4, 1);
  EXPECT_ERROR(make_prompt(config, tokenizer, "ab"), FormatError, "token id 4", "vocabulary of 4");
}

}  // namespace
}  // namespace taper
