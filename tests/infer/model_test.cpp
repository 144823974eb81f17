#include "infer/model.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/bf16.h"
#include "core/error.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

Checkpoint write(const test::RandomModel& model, const TempDir& folder, const char* name) {
  model.write(folder / name);
  return Checkpoint::open(folder / name);
}

ModelOptions at_gate(double gate) {
  ModelOptions options;
  options.gate = gate;
  return options;
}

TEST(Model, Float32Tensors_AreUsedInPlace) {
  const TempDir folder;
  const Checkpoint checkpoint =
      write(test::random_model(1, TaperScope::kInternal, false), folder, "m");
  const Model model(checkpoint);
  const auto in_file = [&](const float* data, const std::string& name) {
    return static_cast<const void*>(data) == checkpoint.tensors().at(name).data.data();
  };
  EXPECT_TRUE(in_file(model.embedding(), "model.embed_tokens.weight"));
  EXPECT_TRUE(in_file(model.head().weight, "lm_head.weight"));
  EXPECT_TRUE(in_file(model.layers()[0].down.weight, "model.layers.0.mlp.down_proj.weight"));
}

TEST(Model, TiedHead_SharesTheEmbedding) {
  const TempDir folder;
  const Model model(write(test::random_model(2, TaperScope::kNone, true), folder, "m"));
  EXPECT_EQ(model.head().weight, model.embedding());
}

TEST(Model, BrainFloatTensors_AreConvertedExactly) {
  const TempDir folder;
  const test::RandomModel random = test::random_model(3, TaperScope::kAll, false);
  std::vector<std::vector<bf16>> storage;
  std::vector<TensorView> views;
  for (const TensorView& tensor : random.tensors.views()) {
    std::vector<bf16>& narrow = storage.emplace_back();
    for (const float value : to_float32(tensor)) narrow.push_back(to_bf16(value));
    TensorView view = tensor;
    view.dtype = DType::kBF16;
    view.data = std::as_bytes(std::span(narrow));
    views.push_back(std::move(view));
  }
  std::filesystem::create_directories(folder / "m");
  write_checkpoint_files(folder / "m", random.config, random.taper, views, "");
  const Model model(Checkpoint::open(folder / "m"), at_gate(0.5));
  const auto expected = to_float32(random.tensors.at("model.layers.0.mlp.up_proj.weight"));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(model.layers()[0].up.weight[i], to_float(to_bf16(expected[i])));
  const float c = to_float32(random.tensors.at("model.norm.taper_scale"))[0];
  EXPECT_EQ(model.final_norm().args.scale, to_float(to_bf16(c)));
}

TEST(Model, SavedGate_IsTheDefault) {
  const TempDir folder;
  const Checkpoint checkpoint =
      write(test::random_model(4, TaperScope::kInternal, true, 0.25), folder, "m");
  const Model as_saved(checkpoint);
  EXPECT_EQ(as_saved.gate(), 0.25);
  EXPECT_EQ(as_saved.layers()[0].ffn_norm.args.gate, 0.25f);
  EXPECT_EQ(as_saved.final_norm().args.gate, 1);  // out of scope
  const Model at_zero(checkpoint, at_gate(0));
  EXPECT_EQ(at_zero.gate(), 0);
  EXPECT_EQ(at_zero.layers()[0].ffn_norm.args.gate, 0);
}

TEST(Model, Norms_ReadWhatTheirFormNeeds) {
  const TempDir folder;
  const Checkpoint checkpoint =
      write(test::random_model(8, TaperScope::kInternal, true, 0.25), folder, "m");
  const auto expect = [&](double gate, NormForm form, bool gamma, bool gamma_t) {
    const Model model(checkpoint, at_gate(gate));
    const Norm& norm = model.layers()[0].ffn_norm;
    EXPECT_EQ(norm.form, form);
    EXPECT_EQ(norm.args.gamma != nullptr, gamma) << gate;
    EXPECT_EQ(norm.args.gamma_t != nullptr, gamma_t) << gate;
    EXPECT_EQ(model.final_norm().form, NormForm::kPlain);  // out of scope
  };
  expect(1, NormForm::kPlain, true, false);
  expect(1 - 1e-12, NormForm::kPlain, true, false);  // 1 in the kernels' precision
  expect(0.25, NormForm::kBlend, true, true);
  expect(0, NormForm::kFixedScale, false, true);
}

TEST(Model, GateOutsideItsRange_IsAnError) {
  const TempDir folder;
  const Checkpoint checkpoint =
      write(test::random_model(5, TaperScope::kInternal, true), folder, "m");
  EXPECT_THROW(Model(checkpoint, at_gate(-0.1)), ConfigError);
  EXPECT_THROW(Model(checkpoint, at_gate(1.5)), ConfigError);
  EXPECT_THROW(Model(checkpoint, at_gate(std::numeric_limits<double>::quiet_NaN())), ConfigError);
}

TEST(Model, GateWithoutTaperedNorms_IsAnErrorUnlessItIsOne) {
  const TempDir folder;
  const Checkpoint checkpoint = write(test::random_model(6, TaperScope::kNone, true), folder, "m");
  EXPECT_THROW(Model(checkpoint, at_gate(0)), ConfigError);
  EXPECT_EQ(Model(checkpoint, at_gate(1)).gate(), 1);
  EXPECT_EQ(Model(checkpoint).gate(), 1);
}

TEST(Model, WeightBytesPerToken_CountWhatOneTokenReads) {
  const TempDir folder;
  const Checkpoint checkpoint =
      write(test::random_model(7, TaperScope::kInternal, false, 0), folder, "m");
  const ModelConfig& c = checkpoint.config();
  // Everything but the other rows of the embedding, and gamma: at gate 0 only gamma~ is read.
  const int64_t plain = Architecture(c).num_parameters() - (c.vocab_size - 1) * c.width;
  EXPECT_EQ(Model(checkpoint).weight_bytes_per_token(), 4 * plain);
  EXPECT_EQ(Model(checkpoint, at_gate(0.5)).weight_bytes_per_token(),
            4 * (plain + 2 * c.num_layers * c.width));
}

}  // namespace
}  // namespace taper
