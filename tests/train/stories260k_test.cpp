// The training pass on a real model that nobody here trained (../shared/data): its known loss.
#include "stories260k.h"

#include <gtest/gtest.h>

#include "core/file.h"
#include "infer/evaluate.h"
#include "shared_data.h"
#include "temp_dir.h"
#include "text/tokenizer.h"
#include "train/pass/training_pass.h"

namespace taper {
namespace {

TEST(Stories260K, TrainingPass_GivesTheKnownLoss) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << "no shared data";
  TempDir folder;
  test::import_stories260k(*data, folder.path() / "model");
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "model");
  const auto tokenizer = load_tokenizer(*checkpoint.tokenizer_path());
  ModelParameters<float> model(checkpoint.config(), TaperScope::kNone);
  model.load(checkpoint);
  ModelParameters<double> wide(checkpoint.config(), TaperScope::kNone);
  wide.load(checkpoint);

  const std::string text = read_file(*data / "tinystories/tinystories_eval200.txt");
  double loss = 0, some_loss = 0, wide_loss = 0, half_loss = 0;
  int64_t count = 0, documents = 0;
  ThreadPool pool(1);
  TrainingPass<float> pass(model, Activations::kFull, pool), half(model, Activations::kBF16, pool);
  TrainingPass<double> reference(wide, Activations::kFull, pool);
  for (const auto& ids : text_documents(text, "eval200", checkpoint.config(), *tokenizer, 512)) {
    const std::vector<int64_t> row(ids.begin(), ids.end());
    const BatchView batch{row.data(), row.data() + 1, 1, std::ssize(row) - 1};
    const PassSums sums = pass.run(batch, {});
    loss += sums.loss;
    count += sums.count;
    if (documents++ % 20 != 0) continue;  // the reference takes its time
    some_loss += sums.loss;
    wide_loss += reference.run(batch, {}).loss;
    half_loss += half.run(batch, {}).loss;
  }
  EXPECT_EQ(count, 70718);
  EXPECT_NEAR(loss / static_cast<double>(count), 1.30651, 1e-5);
  EXPECT_NEAR(some_loss / wide_loss, 1, 1e-7);
  EXPECT_NEAR(half_loss / wide_loss, 1, 0.005);
}

}  // namespace
}  // namespace taper
