#include "infer/fold_checkpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using test::random_model;
using test::RandomModel;

// The model with `change` applied to one of its tensors.
void write_changed(const RandomModel& model, const fs::path& directory, const std::string& name,
                   const std::function<void(std::span<float>)>& change) {
  RandomModel copy{model.config, model.taper, {}};
  for (const TensorView& view : model.tensors.views()) {
    const std::span<float> values = copy.tensors.add(view.name, view.shape);
    std::memcpy(values.data(), view.data.data(), view.data.size());
    if (view.name == name) change(values);
  }
  copy.write(directory);
}

class FoldCheckpoint : public testing::TestWithParam<std::tuple<TaperScope, bool>> {
 protected:
  TempDir dir_;
  ThreadPool pool_{1};
};

TEST_P(FoldCheckpoint, RandomModels_KeepTheirLogits) {
  const auto [scope, tied] = GetParam();
  for (uint64_t seed = 50; seed < 54; ++seed) {
    random_model(seed, scope, tied).write(dir_ / "m", "{}");
    const Checkpoint checkpoint = Checkpoint::open(dir_ / "m");
    const TokenSample sample = sample_random_ids(checkpoint.config(), {});
    const FoldReport report = fold_checkpoint(checkpoint, dir_ / "f", true, sample, pool_);
    EXPECT_EQ(report.norms_folded, std::ssize(checkpoint.taper().tapered));
    EXPECT_EQ(report.norms_folded + report.norms_kept, std::ssize(norm_sites(checkpoint.config())));
    EXPECT_EQ(report.comparison.positions(), sample.num_tokens());
    EXPECT_GT(report.comparison.max_abs_difference(), 0);  // rounding: it did compare two models
    EXPECT_LT(report.comparison.max_rel_difference(), report.tolerance / 2);
    EXPECT_GT(report.rounding_noise, 0);
    EXPECT_LT(report.rounding_noise, 1e-4);
    EXPECT_EQ(read_file(dir_ / "f" / "tokenizer.json"), "{}");
    // What was proven is what was written.
    const auto written =
        compare_models(Model(checkpoint), Model(Checkpoint::open(dir_ / "f")), pool_, sample);
    EXPECT_EQ(written.max_abs_difference(), report.comparison.max_abs_difference());
  }
}

INSTANTIATE_TEST_SUITE_P(ScopesAndHeads, FoldCheckpoint,
                         testing::Combine(testing::Values(TaperScope::kInternal, TaperScope::kFinal,
                                                          TaperScope::kAll),
                                          testing::Bool()));

TEST(FoldVerification, WrongModel_IsFarBeyondTheTolerance) {
  const TempDir dir;
  ThreadPool pool(1);
  const RandomModel model = random_model(55, TaperScope::kAll, false);
  model.write(dir / "m");
  write_changed(model, dir / "w", "model.layers.0.post_attention_layernorm.taper_scale",
                [](std::span<float> c) { c[0] *= 1.01f; });
  const Model right(Checkpoint::open(dir / "m"));
  const Model wrong(Checkpoint::open(dir / "w"));
  const auto comparison = compare_models(right, wrong, pool, sample_random_ids(model.config, {}));
  EXPECT_GT(comparison.max_rel_difference(), 10 * kLogitTolerance);
  EXPECT_ERROR(comparison.require_within(kLogitTolerance, "fold"), NumericsError, "fold");
}

TEST(FoldVerification, Refusal_TouchesNothingOnTheDisk) {
  const TempDir dir;
  ThreadPool pool(1);
  const RandomModel model = random_model(56, TaperScope::kInternal, true);
  write_changed(model, dir / "m", "model.layers.0.self_attn.o_proj.weight",
                [](std::span<float> weight) { weight[0] = std::nanf(""); });
  model.write(dir / "f", "{}");  // to be replaced
  const std::string before = read_file(dir / "f" / "model.safetensors");
  // A temporary that came and went would show in the time of its folder.
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& folder : {dir.path(), dir / "f"}) fs::last_write_time(folder, long_ago);
  const auto time_of = [](const fs::path& folder) { return fs::last_write_time(folder); };
  const auto parent_time = time_of(dir.path()), folder_time = time_of(dir / "f");

  const Checkpoint checkpoint = Checkpoint::open(dir / "m");
  const TokenSample sample = sample_random_ids(model.config, {});
  for (const char* out : {"f", "new"})
    EXPECT_ERROR(fold_checkpoint(checkpoint, dir / out, true, sample, pool), NumericsError,
                 "folded model");
  EXPECT_EQ(time_of(dir.path()), parent_time);
  EXPECT_EQ(time_of(dir / "f"), folder_time);
  EXPECT_EQ(read_file(dir / "f" / "model.safetensors"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace taper
