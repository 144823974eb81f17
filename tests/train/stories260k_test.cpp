// The training pass and its reference graph on a real model that nobody here trained
// (../shared/data): its known loss.
#include "stories260k.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/file.h"
#include "infer/evaluate.h"
#include "shared_data.h"
#include "temp_dir.h"
#include "text/tokenizer.h"
#include "train/nn/transformer.h"

namespace taper {
namespace {

TEST(Stories260K, TrainingPassAndGraph_GiveTheKnownLoss) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << "no shared data";
  TempDir folder;
  test::import_stories260k(*data, folder.path() / "model");
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "model");
  const auto tokenizer = load_tokenizer(*checkpoint.tokenizer_path());
  Transformer model(checkpoint.config(), TaperScope::kNone);
  model.load(checkpoint);

  const std::string text = read_file(*data / "tinystories/tinystories_eval200.txt");
  double loss = 0, some_loss = 0, pass_loss = 0, half_loss = 0;
  int64_t count = 0, documents = 0;
  FusedTransformer pass(checkpoint.config(), Activations::kFloat);
  FusedTransformer half(checkpoint.config(), Activations::kBF16);
  const FusedParameters parameters = model.fused_parameters(false);
  torch::NoGradGuard no_grad;
  for (const auto& ids : text_documents(text, "eval200", checkpoint.config(), *tokenizer, 512)) {
    const torch::Tensor row = torch::tensor(std::vector<int64_t>(ids.begin(), ids.end()));
    const int64_t n = row.numel() - 1;
    const ForwardResult result =
        model.forward(row.narrow(0, 0, n).view({1, n}), row.narrow(0, 1, n).view({1, n}), {});
    loss += result.loss_value;
    count += result.count;
    if (documents++ % 10 != 0) continue;  // each length has products of its own to prepare
    some_loss += result.loss_value;
    const FusedBatch batch{row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + 1, 1, n};
    pass_loss += pass.run(parameters, batch, {}).loss;
    half_loss += half.run(parameters, batch, {}).loss;
  }
  EXPECT_EQ(count, 70718);
  EXPECT_NEAR(loss / static_cast<double>(count), 1.30651, 1e-5);
  EXPECT_NEAR(pass_loss / some_loss, 1, 1e-6);
  EXPECT_NEAR(half_loss / some_loss, 1, 0.005);
}

}  // namespace
}  // namespace taper
