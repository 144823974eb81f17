#include "infer/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/file.h"
#include "infer/reference_transformer.h"
#include "infer/scripted_model.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"
#include "text/byte_tokenizer.h"
#include "text/prepare.h"
#include "tolerances.h"

namespace taper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename ErrorType, typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "";
}

TokenShard write_shard(const TempDir& folder, int64_t count, int64_t vocab, uint64_t fingerprint) {
  TokenShardWriter writer(folder / "f.tok", vocab, fingerprint);
  for (int32_t i = 0; i < count; ++i) writer.append(std::vector<int32_t>{i % 7});
  writer.commit();
  return TokenShard(folder / "f.tok");
}

TEST(Evaluate, LossAndPercentiles_MatchTheReference) {
  const TempDir folder;
  for (const double gate : {0.0, 0.7}) {
    const test::RandomModel random = test::random_model(31, TaperScope::kAll, true, gate);
    random.write(folder / "m");
    const Checkpoint checkpoint = Checkpoint::open(folder / "m");
    const test::ReferenceTransformer reference(checkpoint, gate);
    Sequences sequences;
    Random ids(4);
    double sum = 0;
    std::vector<double> losses;
    int64_t tokens = 0;
    for (const size_t size : {2, 16, 9, 3, 12}) {
      std::vector<TokenId>& sequence = sequences.emplace_back(size);
      for (TokenId& id : sequence)
        id = static_cast<TokenId>(ids.below(static_cast<uint64_t>(random.config.vocab_size)));
      losses.push_back(reference.loss(sequence));
      sum += losses.back() * static_cast<double>(size - 1);
      tokens += static_cast<int64_t>(size) - 1;
    }
    std::sort(losses.begin(), losses.end());
    ThreadPool pool(2);
    const Evaluation result = evaluate(Model(checkpoint), pool, sequences);
    EXPECT_EQ(result.tokens, tokens);
    EXPECT_EQ(result.sequences, 5);
    EXPECT_NEAR(result.loss, sum / static_cast<double>(tokens), test::kLossTolerance);
    EXPECT_NEAR(result.perplexity, std::exp(result.loss), 1e-9);
    EXPECT_NEAR(result.p50, losses[2], test::kLossTolerance);
    EXPECT_NEAR(result.p95, losses[4], test::kLossTolerance);
    EXPECT_NEAR(result.max, losses[4], test::kLossTolerance);
    EXPECT_GT(result.max_residual_norm, 0);
  }
}

TEST(Evaluate, LargestResidualNorm_IsThatOfTheFinalNormsInput) {
  const TempDir folder;
  test::write_scripted_model(folder / "m", {1, 2, 3, 0}, 0, -1, -1, 16);
  const Checkpoint checkpoint = Checkpoint::open(folder / "m");
  ThreadPool pool(1);
  // One-hot embeddings pass unchanged: every norm is 1.
  EXPECT_NEAR(evaluate(Model(checkpoint), pool, {{0, 1, 2}, {3, 0}}).max_residual_norm, 1, 1e-6);
}

TEST(Evaluate, PredictableTokens_LoseLittle) {
  const TempDir folder;
  test::write_scripted_model(folder / "m", {1, 2, 3, 0}, 0, -1, -1, 16);
  const Checkpoint checkpoint = Checkpoint::open(folder / "m");
  ThreadPool pool(1);
  // Logits of a one-hot row: sqrt(V) = 2 for the follower, 0 elsewhere.
  const double hit = std::log(std::exp(2.0) + 3) - 2, miss = std::log(std::exp(2.0) + 3);
  EXPECT_NEAR(evaluate(Model(checkpoint), pool, {{0, 1, 2, 3, 0}}).loss, hit, 1e-4);
  EXPECT_NEAR(evaluate(Model(checkpoint), pool, {{0, 2, 1, 0}}).loss, miss, 1e-4);
}

TEST(Evaluate, NothingToPredict_IsAnError) {
  const TempDir folder;
  test::write_scripted_model(folder / "m", {1, 0}, 0, -1, -1, 16);
  const Model model(Checkpoint::open(folder / "m"));
  ThreadPool pool(1);
  EXPECT_THROW(evaluate(model, pool, {}), FormatError);
  EXPECT_THROW(evaluate(model, pool, {{1}}), FormatError);
}

TEST(Evaluate, LossThatIsNotFinite_NamesTheSequence) {
  const TempDir folder;
  test::RandomModel random = test::random_model(32, TaperScope::kNone, true);
  auto views =
      std::vector<TensorView>(random.tensors.views().begin(), random.tensors.views().end());
  auto poisoned = to_float32(views[0]);  // the embedding; token 5 is damaged
  poisoned[static_cast<size_t>(5 * random.config.width)] = std::numeric_limits<float>::quiet_NaN();
  views[0].data = std::as_bytes(std::span(poisoned));
  random.config.tied_head = false;
  auto head = to_float32(random.tensors.at("model.embed_tokens.weight"));
  views.push_back({"lm_head.weight",
                   DType::kF32,
                   {random.config.vocab_size, random.config.width},
                   std::as_bytes(std::span(head))});
  std::filesystem::create_directories(folder / "m");
  write_checkpoint_files(folder / "m", random.config, random.taper, views, "");
  const Model model(Checkpoint::open(folder / "m"));
  ThreadPool pool(1);
  EXPECT_TRUE(std::isfinite(evaluate(model, pool, {{1, 2, 3}}).loss));
  EXPECT_THAT(message_of<NumericsError>([&] {
                evaluate(model, pool, {{1, 2, 3}, {4, 5, 6}});
              }),
              HasSubstr("sequence 2"));
}

TEST(Windows, EveryIdButTheFirst_IsPredictedOnce) {
  const TempDir folder;
  ModelConfig config;
  config.vocab_size = 7;
  config.context = 64;
  const TokenShard shard = write_shard(folder, 23, 7, 1);
  const Sequences windows = shard_windows(shard, config, nullptr, 5);
  ASSERT_EQ(windows.size(), 4u);  // ids 0 to 20; the last two are left over
  for (size_t w = 0; w < windows.size(); ++w) {
    ASSERT_EQ(windows[w].size(), 6u);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(windows[w][i], shard[static_cast<int64_t>(5 * w + i)]);
  }
  EXPECT_EQ(shard_windows(shard, config, nullptr, 22).size(), 1u);
}

TEST(Windows, TooLittleData_IsAnErrorWithTheCounts) {
  const TempDir folder;
  ModelConfig config;
  config.vocab_size = 7;
  config.context = 64;
  const TokenShard shard = write_shard(folder, 23, 7, 1);
  const auto message = message_of<FormatError>([&] { shard_windows(shard, config, nullptr, 23); });
  EXPECT_THAT(message, HasSubstr("f.tok: 23 tokens"));
  EXPECT_THAT(message, HasSubstr("window of 23"));
}

TEST(Windows, ShardOfAnotherTokenizer_IsAnErrorWithBothFingerprints) {
  const TempDir folder;
  ModelConfig config;
  config.vocab_size = 7;
  config.context = 64;
  const test::PieceTokenizer tokenizer({"a"}, -1, -1);  // fingerprint 77
  const TokenShard other = write_shard(folder, 23, 7, 0xabc);
  EXPECT_THAT(message_of<FormatError>([&] { shard_windows(other, config, &tokenizer, 5); }),
              testing::AllOf(HasSubstr("f.tok"), HasSubstr("0abc"), HasSubstr("004d")));
  const TokenShard same = write_shard(folder, 23, 7, 77);
  EXPECT_EQ(shard_windows(same, config, &tokenizer, 5).size(), 4u);
}

TEST(Windows, VocabularyBeyondTheModels_IsAnError) {
  const TempDir folder;
  ModelConfig config;
  config.vocab_size = 6;
  config.context = 64;
  const TokenShard shard = write_shard(folder, 23, 7, 1);
  EXPECT_THAT(message_of<FormatError>([&] { shard_windows(shard, config, nullptr, 5); }),
              HasSubstr("vocabulary of 7"));
}

TEST(Windows, ContextTheModelDoesNotHave_IsAnError) {
  const TempDir folder;
  ModelConfig config;
  config.vocab_size = 7;
  config.context = 16;
  const TokenShard shard = write_shard(folder, 23, 7, 1);
  EXPECT_THROW(shard_windows(shard, config, nullptr, 17), ConfigError);
  EXPECT_THROW(shard_windows(shard, config, nullptr, 1), ConfigError);
}

ModelConfig config_of(int64_t vocab_size) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.context = 64;
  return config;
}

TEST(Documents, TextOfSeveral_EachOnItsOwnTrimmedAndCut) {
  const ModelConfig config = config_of(5);
  const std::vector<std::string> pieces = {"<s>", "</s>", "a", "b", " "};
  const test::PieceTokenizer with_bos(pieces, 0, 1), without(pieces, -1, 1);
  const std::string text = " \n ab a\n<|endoftext|>\n\n<|endoftext|>b\n<|endoftext|>abab";
  EXPECT_THAT(
      text_documents(text, "t", config, with_bos, 64),
      ElementsAre(ElementsAre(0, 2, 3, 4, 2), ElementsAre(0, 3), ElementsAre(0, 2, 3, 2, 3)));
  EXPECT_THAT(text_documents(text, "t", config, with_bos, 3),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(0, 3), ElementsAre(0, 2, 3)));
  // A document of one token has nothing to predict.
  EXPECT_THAT(text_documents(text, "t", config, without, 64),
              ElementsAre(ElementsAre(2, 3, 4, 2), ElementsAre(2, 3, 2, 3)));
  EXPECT_THROW(text_documents(" \n<|endoftext|>", "t", config, without, 64), FormatError);
}

TEST(Documents, JoinedToWindows_StandAfterBosOrBeforeEndOfText) {
  const ModelConfig config = config_of(4);
  const std::vector<std::string> pieces = {"<s>", "</s>", "a", "b"};
  const test::PieceTokenizer with_bos(pieces, 0, 1), without(pieces, -1, 1);
  const std::string text = "ab<|endoftext|>\nba";
  EXPECT_THAT(text_windows(text, "t", config, with_bos, 2),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(3, 0, 3)));
  EXPECT_THAT(text_windows(text, "t", config, without, 2),
              ElementsAre(ElementsAre(2, 3, 1), ElementsAre(1, 3, 2)));
  EXPECT_THAT(message_of<FormatError>([&] { text_windows("a", "t", config, without, 3); }),
              HasSubstr("t: 2 tokens"));
}

TEST(Documents, IdBeyondTheModelsVocabulary_IsAnErrorEvenWhereItIsOnlyPredicted) {
  const ModelConfig config = config_of(3);
  const test::PieceTokenizer bos_beyond({"a", "b", "</s>", "<s>"}, 3, 2);
  const test::PieceTokenizer end_beyond({"a", "b", "c", "</s>"}, -1, 3);
  for (const auto sequences : {text_windows, text_documents})
    EXPECT_THAT(message_of<FormatError>([&] { sequences("abab", "t", config, bos_beyond, 3); }),
                testing::AllOf(HasSubstr("t: token id 3"), HasSubstr("vocabulary of 3")));
  EXPECT_THAT(message_of<FormatError>([&] { text_windows("abc", "t", config, end_beyond, 3); }),
              HasSubstr("t: token id 3"));
  EXPECT_EQ(text_documents("abc", "t", config, end_beyond, 3).size(), 1u);  // ends none
}

TEST(Documents, TextAndTheShardMadeOfIt_HaveTheSameWindows) {
  const std::string text = "one two\n<|endoftext|>\nthree\n<|endoftext|>\n four, five ";
  for (const bool with_bos : {false, true}) {
    const TempDir folder;
    std::filesystem::create_directories(folder.path());
    write_file_atomically(folder / "tokenizer.json", test::byte_tokenizer_json(with_bos));
    write_file_atomically(folder / "t.txt", text);
    PrepareOptions prepare;
    prepare.tokenizer = folder / "tokenizer.json";
    prepare.inputs = {folder / "t.txt"};
    prepare.out = folder / "out";
    prepare_data(prepare);
    const auto tokenizer = load_tokenizer(prepare.tokenizer);
    ModelConfig config = config_of(260);
    config.bos_id = 5;  // what config.json says of special tokens has no say here
    config.eos_id = 6;
    const TokenShard shard(prepare.out / "train.tok");
    EXPECT_EQ(text_windows(text, "t", config, *tokenizer, 7),
              shard_windows(shard, config, tokenizer.get(), 7));
  }
}

}  // namespace
}  // namespace taper
