// The link of the equivalence chain between the two halves: training pass == inference engine, at g
// = 1, between, and at 0, for every scope, and folded after training.
#include <gtest/gtest.h>

#include <cmath>

#include "infer/session.h"
#include "taper/fold.h"
#include "temp_dir.h"
#include "tolerances.h"
#include "train/pass_case.h"

namespace taper {
namespace {

constexpr int64_t kWindow = 11;

TaperState state_of(const ModelParameters<float>& model, TaperScope scope, double gate) {
  TaperState state;
  state.scope = scope;
  if (scope == TaperScope::kNone) return state;
  state.phase = gate == 0 ? "settle" : "taper";
  state.gate = gate;
  state.ema_weight = 0.01;
  state.tapered = model.tapered_names();
  return state;
}

// log p of every token of the vocabulary at every position, by the training pass: its loss with
// that token as the only target.
std::vector<double> by_the_pass(ModelParameters<float>& model, double gate,
                                const std::vector<int64_t>& ids) {
  ThreadPool pool(1);
  TrainingPass<float> pass(model, Activations::kFull, pool);
  PassOptions options;
  options.gate = gate;
  std::vector<double> all;
  for (int64_t t = 0; t < kWindow; ++t) {
    for (int64_t token = 0; token < model.config().vocab_size; ++token) {
      std::vector<int64_t> targets(ids.size(), -1);
      targets[static_cast<size_t>(t)] = token;
      all.push_back(-pass.run({ids.data(), targets.data(), 1, kWindow}, options).loss);
    }
  }
  return all;
}

std::vector<double> by_the_engine(const Checkpoint& checkpoint, const std::vector<int64_t>& ids) {
  const Model model(checkpoint);
  ThreadPool pool(2);
  Session session(model, pool, model.config().context);
  const std::vector<int32_t> tokens(ids.begin(), ids.end());
  const auto logits = session.forward(tokens, LogitRows::kAll);
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  std::vector<double> all;
  for (size_t row = 0; row < tokens.size(); ++row) {
    const auto z = logits.subspan(row * vocab, vocab);
    double total = 0;
    for (const float value : z) total += std::exp(static_cast<double>(value));
    for (const float value : z) all.push_back(static_cast<double>(value) - std::log(total));
  }
  return all;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(a[i]));
  }
  return largest / scale;
}

struct Case {
  TaperScope scope;
  double gate;
  bool tied;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << to_string(c.scope) << " gate " << c.gate << (c.tied ? " tied" : " untied");
  }
};

class PassAndEngine : public testing::TestWithParam<Case> {};

TEST_P(PassAndEngine, SameWeights_GiveTheSameProbabilities) {
  const Case c = GetParam();
  const ModelConfig config = test::tiny_config(c.tied);
  auto model = test::random_model<float>(config, c.scope);
  TempDir folder;
  write_checkpoint_files(folder.path(), config, state_of(model, c.scope, c.gate),
                         model.tensor_views(), "");
  const std::vector<int64_t> ids = test::random_ids(kWindow, config.vocab_size, 17);
  const std::vector<double> expected = by_the_pass(model, c.gate, ids);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_LT(largest_difference(expected, by_the_engine(checkpoint, ids)), test::kModelTolerance);
  if (c.gate != 0) return;

  // One link on: the folded model, in the engine and in the pass.
  const FoldedModel folded = fold(checkpoint);
  TempDir second;
  write_checkpoint_files(second.path(), folded.plan.config, folded.plan.taper,
                         folded.tensors->views(), "");
  const Checkpoint folded_checkpoint = Checkpoint::open(second.path());
  EXPECT_LT(largest_difference(expected, by_the_engine(folded_checkpoint, ids)),
            test::kModelTolerance);
  ModelParameters<float> norm_free(folded_checkpoint.config(), TaperScope::kNone,
                                   folded_checkpoint.taper().folded);
  norm_free.load(folded_checkpoint);
  EXPECT_LT(largest_difference(expected, by_the_pass(norm_free, 1, ids)), test::kModelTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Gates, PassAndEngine,
    testing::Values(Case{TaperScope::kNone, 1, true}, Case{TaperScope::kNone, 1, false},
                    Case{TaperScope::kInternal, 1, true}, Case{TaperScope::kInternal, 0.37, true},
                    Case{TaperScope::kInternal, 0, true}, Case{TaperScope::kInternal, 0, false},
                    Case{TaperScope::kFinal, 0.37, true}, Case{TaperScope::kFinal, 0, true},
                    Case{TaperScope::kAll, 0.37, false}, Case{TaperScope::kAll, 0, true},
                    Case{TaperScope::kAll, 0, false}));

}  // namespace
}  // namespace taper
