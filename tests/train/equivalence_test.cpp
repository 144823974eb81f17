// The link of the equivalence chain between the two halves: training graph == inference engine, at
// g = 1, between, and at 0, for every scope, and folded after training.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "core/file.h"
#include "infer/session.h"
#include "taper/fold.h"
#include "temp_dir.h"
#include "tolerances.h"
#include "train/random_model.h"

namespace taper {
namespace {

struct Case {
  TaperScope scope;
  double gate;
  bool tied;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << to_string(c.scope) << " gate " << c.gate << (c.tied ? " tied" : " untied");
  }
};

TaperState state_of(const Transformer& model, TaperScope scope, double gate) {
  TaperState state;
  state.scope = scope;
  if (scope == TaperScope::kNone) return state;
  state.phase = gate == 0 ? "settle" : "taper";
  state.gate = gate;
  state.ema_weight = 0.01;
  state.tapered = model.tapered_names();
  return state;
}

// The largest difference between the graph's logits and the engine's, relative to the largest
// logit.
double difference(const torch::Tensor& expected, const Checkpoint& checkpoint,
                  const torch::Tensor& ids) {
  const Model model(checkpoint);
  ThreadPool pool(2);
  Session session(model, pool, model.config().context);
  double worst = 0;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const int64_t* begin = ids.data_ptr<int64_t>() + row * ids.size(1);
    const std::vector<int32_t> tokens(begin, begin + ids.size(1));
    session.rewind();
    const auto logits = session.forward(tokens, LogitRows::kAll);
    const torch::Tensor wanted = expected[row].contiguous();
    const float* reference = wanted.data_ptr<float>();
    for (size_t i = 0; i < logits.size(); ++i)
      worst = std::max(worst, std::abs(double(logits[i]) - double(reference[i])));
  }
  return worst / expected.abs().max().item<double>();
}

class GraphAndEngine : public testing::TestWithParam<Case> {};

TEST_P(GraphAndEngine, SameWeights_GiveTheSameLogits) {
  torch::NoGradGuard no_grad;
  const Case c = GetParam();
  const ModelConfig config = test::tiny_config(c.tied);
  Transformer model = c.scope == TaperScope::kNone
                          ? Transformer(config, c.scope)
                          : test::tapered_model(config, c.scope, torch::kFloat32);
  if (c.scope == TaperScope::kNone) test::randomize(model.parameters(), 5);
  TempDir folder;
  const TaperState state = state_of(model, c.scope, c.gate);
  write_checkpoint_files(folder.path(), config, state, model.tensor_views(), "");

  const torch::Tensor ids = test::random_ids(3, 11, config.vocab_size, 17);
  const torch::Tensor logits = model.logits(ids, c.gate);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_LT(difference(logits, checkpoint, ids), test::kModelTolerance);
  if (c.gate != 0) return;

  // One link on: the folded model, in the engine and in the graph.
  const FoldedModel folded = fold(checkpoint);
  TempDir second;
  write_checkpoint_files(second.path(), folded.plan.config, folded.plan.taper,
                         folded.tensors.views(), "");
  const Checkpoint folded_checkpoint = Checkpoint::open(second.path());
  EXPECT_LT(difference(logits, folded_checkpoint, ids), test::kModelTolerance);
  Transformer norm_free(folded_checkpoint.config(), TaperScope::kNone,
                        folded_checkpoint.taper().folded);
  norm_free.load(folded_checkpoint);
  const double drift =
      ((norm_free.logits(ids, 1) - logits).abs().max() / logits.abs().max()).item<double>();
  EXPECT_LT(drift, test::kModelTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Gates, GraphAndEngine,
    testing::Values(Case{TaperScope::kNone, 1, true}, Case{TaperScope::kNone, 1, false},
                    Case{TaperScope::kInternal, 1, true}, Case{TaperScope::kInternal, 0.37, true},
                    Case{TaperScope::kInternal, 0, true}, Case{TaperScope::kInternal, 0, false},
                    Case{TaperScope::kFinal, 0.37, true}, Case{TaperScope::kFinal, 0, true},
                    Case{TaperScope::kAll, 0.37, false}, Case{TaperScope::kAll, 0, true},
                    Case{TaperScope::kAll, 0, false}));

}  // namespace
}  // namespace taper
