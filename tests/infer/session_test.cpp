// The engine against the formulas, and against itself under every way of cutting a sequence.
#include "infer/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "infer/reference_transformer.h"
#include "model/random_checkpoint.h"
#include "taper/fold.h"
#include "temp_dir.h"
#include "tolerances.h"

namespace taper {
namespace {

std::vector<int32_t> random_ids(const ModelConfig& config, int64_t count, uint64_t seed) {
  Random random(seed, 9);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.vocab_size)));
  return ids;
}

Checkpoint write_random(const TempDir& folder, uint64_t seed, TaperScope scope, bool tied) {
  const test::RandomModel model = test::random_model(seed, scope, tied);
  const auto path = folder / std::to_string(seed);
  model.write(path);
  return Checkpoint::open(path);
}

std::vector<float> all_logits(const Model& model, ThreadPool& pool,
                              const std::vector<int32_t>& ids) {
  Session session(model, pool, std::ssize(ids));
  const auto logits = session.forward(ids, LogitRows::kAll);
  return {logits.begin(), logits.end()};
}

// The largest difference from the reference, relative to the largest logit of the position.
double distance(const std::vector<float>& logits, const test::Rows& reference) {
  double worst = 0;
  size_t index = 0;
  for (const test::Row& row : reference) {
    double size = 0, difference = 0;
    for (const double value : row) {
      size = std::max(size, std::abs(value));
      difference = std::max(difference, std::abs(logits[index++] - value));
    }
    worst = std::max(worst, difference / size);
  }
  return worst;
}

struct Case {
  uint64_t seed;
  TaperScope scope;
  bool tied;
  double gate;
};

class SessionCases : public testing::TestWithParam<Case> {};

TEST_P(SessionCases, Logits_MatchTheFormulas) {
  const Case& c = GetParam();
  const TempDir folder;
  const Checkpoint checkpoint = write_random(folder, c.seed, c.scope, c.tied);
  const auto ids = random_ids(checkpoint.config(), checkpoint.config().context, c.seed);
  ModelOptions options;
  options.gate = c.gate;
  const Model model(checkpoint, options);
  ThreadPool pool(2);
  const auto reference = test::ReferenceTransformer(checkpoint, c.gate).logits(ids);
  EXPECT_LT(distance(all_logits(model, pool, ids), reference), test::kModelTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    NormsAndHeads, SessionCases,
    testing::Values(Case{1, TaperScope::kNone, true, 1}, Case{2, TaperScope::kNone, false, 1},
                    Case{3, TaperScope::kInternal, true, 1}, Case{4, TaperScope::kAll, false, 0.6},
                    Case{5, TaperScope::kInternal, false, 0.25},
                    Case{6, TaperScope::kAll, true, 0.01}, Case{7, TaperScope::kInternal, true, 0},
                    Case{8, TaperScope::kAll, false, 0}, Case{9, TaperScope::kFinal, true, 0},
                    Case{10, TaperScope::kFinal, false, 0.5}));

TEST(Session, SequenceCutIntoAnyCalls_SameBits) {
  const TempDir folder;
  for (const uint64_t seed : {11, 12, 13}) {
    const Model model(write_random(folder, seed, TaperScope::kInternal, true));
    const auto ids = random_ids(model.config(), model.config().context, seed);
    const size_t vocab = static_cast<size_t>(model.config().vocab_size);
    ThreadPool pool(2);
    const auto whole = all_logits(model, pool, ids);
    // Token by token; prefill, then decoding; uneven pieces.
    for (const std::vector<size_t>& pieces : {std::vector<size_t>(ids.size(), 1),
                                              {ids.size() - 4, 1, 1, 1, 1},
                                              {1, 7, 2, 3},
                                              {5, 1, 9}}) {
      Session session(model, pool, model.config().context);
      std::vector<float> logits;
      size_t done = 0;
      for (const size_t size : pieces) {
        const auto part = session.forward(std::span(ids).subspan(done, size), LogitRows::kAll);
        ASSERT_EQ(part.size(), size * vocab);
        logits.insert(logits.end(), part.begin(), part.end());
        done += size;
        EXPECT_EQ(session.position(), static_cast<int64_t>(done));
      }
      const std::vector<float> expected(whole.begin(),
                                        whole.begin() + static_cast<int64_t>(done * vocab));
      EXPECT_EQ(logits, expected) << "seed " << seed << ", " << pieces.size() << " pieces";
    }
  }
}

// Longer than one internal pass of prefill.
TEST(Session, LongPrefill_SameBitsAsTokenByToken) {
  const TempDir folder;
  test::RandomModel random = test::random_model(14, TaperScope::kNone, false);
  random.config.context = 300;
  random.write(folder / "long");
  const Model model(Checkpoint::open(folder / "long"));
  const auto ids = random_ids(model.config(), 300, 1);
  ThreadPool pool(2);
  Session prefilled(model, pool, 300), decoded(model, pool, 300);
  const auto last = prefilled.forward(ids, LogitRows::kLast);
  for (size_t i = 0; i + 1 < ids.size(); ++i)
    EXPECT_TRUE(decoded.forward(std::span(ids).subspan(i, 1), LogitRows::kNone).empty());
  const auto stepped = decoded.forward(std::span(ids).last(1), LogitRows::kLast);
  EXPECT_EQ(std::vector<float>(last.begin(), last.end()),
            std::vector<float>(stepped.begin(), stepped.end()));
}

TEST(Session, ThreadCount_SameBits) {
  const TempDir folder;
  const Model model(write_random(folder, 15, TaperScope::kAll, true));
  const auto ids = random_ids(model.config(), model.config().context, 15);
  ThreadPool one(1), three(3);
  EXPECT_EQ(all_logits(model, one, ids), all_logits(model, three, ids));
}

TEST(Session, GateOne_EqualsThePlainModelBitwise) {
  const TempDir folder;
  test::RandomModel tapered = test::random_model(16, TaperScope::kAll, true);
  tapered.write(folder / "tapered");
  test::RandomModel plain;
  plain.config = tapered.config;
  for (const TensorView& tensor : tapered.tensors.views())
    if (tensor.name.find(".taper_") == std::string::npos) plain.tensors.add_view(tensor);
  plain.write(folder / "plain");
  ModelOptions options;
  options.gate = 1;
  const Model at_one(Checkpoint::open(folder / "tapered"), options);
  const Model model(Checkpoint::open(folder / "plain"));
  const auto ids = random_ids(model.config(), model.config().context, 16);
  ThreadPool pool(2);
  EXPECT_EQ(all_logits(at_one, pool, ids), all_logits(model, pool, ids));
}

TEST(Session, FoldedModel_EqualsTheTaperedOneAtGateZero) {
  const TempDir folder;
  for (const uint64_t seed : {17, 18, 19}) {
    const bool tied = seed != 18;
    const TaperScope scope = seed == 17 ? TaperScope::kInternal : TaperScope::kAll;
    const Checkpoint checkpoint = write_random(folder, seed, scope, tied);
    const FoldedModel folded = fold(checkpoint);
    std::filesystem::create_directories(folder / "folded");
    write_checkpoint_files(folder / "folded", folded.plan.config, folded.plan.taper,
                           folded.tensors->views(), "");
    const Model before(checkpoint), after(Checkpoint::open(folder / "folded"));
    EXPECT_EQ(after.layers()[0].attention_norm.form, NormForm::kIdentity);
    EXPECT_EQ(after.final_norm().form,
              scope == TaperScope::kAll ? NormForm::kIdentity : NormForm::kPlain);
    const auto ids = random_ids(before.config(), before.config().context, seed);
    ThreadPool pool(2);
    const auto a = all_logits(before, pool, ids), b = all_logits(after, pool, ids);
    const float size = std::abs(*std::max_element(
        a.begin(), a.end(), [](float x, float y) { return std::abs(x) < std::abs(y); }));
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], test::kModelTolerance * size);
  }
}

TEST(Session, RewoundAndRunAgain_SameBitsWhateverCameBefore) {
  const TempDir folder;
  const Model model(write_random(folder, 20, TaperScope::kNone, true));
  const auto first = random_ids(model.config(), model.config().context, 1);
  const auto second = random_ids(model.config(), 9, 2);
  ThreadPool pool(2);
  Session session(model, pool, model.config().context);
  session.forward(first, LogitRows::kNone);
  session.rewind();
  const auto logits = session.forward(second, LogitRows::kAll);
  EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), all_logits(model, pool, second));

  session.rewind(4);
  const auto tail = session.forward(std::span(second).subspan(4), LogitRows::kLast);
  const auto expected = all_logits(model, pool, second);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), expected.end() - std::ssize(tail)));
}

TEST(Session, MoreTokensThanCapacity_IsAnErrorAndChangesNothing) {
  const TempDir folder;
  const Model model(write_random(folder, 21, TaperScope::kNone, true));
  ThreadPool pool(1);
  Session session(model, pool, 8);
  session.forward(random_ids(model.config(), 6, 1), LogitRows::kNone);
  EXPECT_THROW(session.forward(random_ids(model.config(), 3, 1), LogitRows::kLast), ConfigError);
  EXPECT_EQ(session.position(), 6);
  session.forward(random_ids(model.config(), 2, 1), LogitRows::kLast);
  EXPECT_THROW(session.forward(random_ids(model.config(), 1, 1), LogitRows::kLast), ConfigError);
  EXPECT_THROW(Session(model, pool, model.config().context + 1), ConfigError);
  EXPECT_THROW(Session(model, pool, 0), ConfigError);
}

TEST(Session, IdBeyondTheVocabulary_IsAnErrorThatNamesIt) {
  const TempDir folder;
  const Model model(write_random(folder, 22, TaperScope::kNone, true));
  ThreadPool pool(1);
  Session session(model, pool, 8);
  for (const int32_t id : {static_cast<int32_t>(model.config().vocab_size), -1}) {
    try {
      session.forward(std::vector<int32_t>{1, id}, LogitRows::kLast);
      FAIL() << "accepted " << id;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("token id " + std::to_string(id)),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("position 1"), std::string::npos);
    }
    EXPECT_EQ(session.position(), 0);
  }
}

TEST(Session, Observer_SeesEveryNormsInputInOrderFoldedOnesToo) {
  const TempDir folder;
  const Checkpoint checkpoint = write_random(folder, 23, TaperScope::kAll, true);
  const FoldedModel folded = fold(checkpoint);
  std::filesystem::create_directories(folder / "folded");
  write_checkpoint_files(folder / "folded", folded.plan.config, folded.plan.taper,
                         folded.tensors->views(), "");
  const Model model(Checkpoint::open(folder / "folded"));
  const ModelConfig& config = model.config();
  const auto ids = random_ids(config, 5, 3);
  ThreadPool pool(1);
  Session session(model, pool, 8);
  std::vector<std::string> names;
  std::vector<float> first, last;
  session.set_norm_observer([&](const NormSite& site, const float* h, int64_t rows) {
    EXPECT_EQ(rows, 5);
    EXPECT_EQ(session.position(), 0);
    if (names.empty()) first.assign(h, h + rows * config.width);
    last.assign(h, h + rows * config.width);
    names.push_back(site.name);
  });
  const auto logits = session.forward(ids, LogitRows::kLast);
  std::vector<std::string> expected;
  for (const NormSite& site : norm_sites(config)) expected.push_back(site.name);
  EXPECT_EQ(names, expected);
  // The first norm's input is the embedding; the last one's gives the logits through the head.
  const auto row = static_cast<size_t>(config.width);
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i], model.embedding()[static_cast<size_t>(ids[i / row]) * row + i % row]);
  for (size_t n = 0; n < logits.size(); ++n) {
    double sum = 0;
    for (size_t i = 0; i < row; ++i)
      sum += static_cast<double>(last[4 * row + i]) * model.head().weight[n * row + i];
    EXPECT_NEAR(logits[n], sum, 1e-4);
  }
}

}  // namespace
}  // namespace taper
