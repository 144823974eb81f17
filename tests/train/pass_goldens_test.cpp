// The pass against losses, statistics and all gradients that PyTorch's autograd computed in double
// (tools/make_training_goldens.py, which writes the model from the formulas alone).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/file.h"
#include "io/safetensors.h"
#include "train/pass/training_pass.h"
#include "train/random_model.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

struct Golden {
  Json json;
  SafetensorsFile file;
  ModelConfig config;
  TaperScope scope;
  bool tapered;
  Batch batch;
  PassOptions options;

  explicit Golden(const fs::path& path)
      : json(parse_json(read_file(fs::path(path).replace_extension(".json")), path.string())),
        file(path),
        config(from_config_json(json["config"], path.string())),
        scope(parse_scope(json["scope"].get<std::string>(), path.string())),
        tapered(!json["tapered"].empty()) {
    const TensorView& ids = file.at("ids");
    batch = {ids.shape[0], ids.shape[1], integers("ids"), integers("targets")};
    options.gate = json["gate"];
    options.skip_first_position = json["skip_first_position"];
    if (!json["anchor_target"].is_null()) options.anchor_target = json["anchor_target"];
    options.loss_weight = json["loss_weight"];
    options.anchor_weight = json["anchor_weight"];
    options.backward = true;
  }

  template <typename V>
  std::vector<V> values(const std::string& name) const {
    const auto bytes = file.at(name).data;
    std::vector<V> to(bytes.size() / sizeof(V));
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return to;
  }
  std::vector<int64_t> integers(const std::string& name) const { return values<int64_t>(name); }

  template <typename R>
  ModelParameters<R> model() const {
    ModelParameters<R> model(config, scope, json["folded"].get<std::vector<std::string>>());
    if (tapered) {
      std::vector<double> scales;
      for (const NormSite& site : norm_sites(config)) {
        const std::string name = "param." + site.taper_scale();
        scales.push_back(file.find(name) ? values<double>(name).at(0) : 0);
      }
      model.begin_taper(scales);
    }
    for (const ParameterSlice& slice : model.layout().slices()) {
      if (!tapered && slice.range.begin >= model.layout().gamma_t().begin) continue;
      const auto from = values<double>("param." + slice.name);
      const auto to = test::part(model.values(), slice.range);
      EXPECT_EQ(from.size(), to.size()) << slice.name;
      std::transform(from.begin(), from.end(), to.begin(),
                     [](double x) { return static_cast<R>(x); });
    }
    return model;
  }
};

std::vector<fs::path> goldens() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(TAPER_SOURCE_DIR "/tests/train/goldens"))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class PassGoldens : public testing::TestWithParam<fs::path> {};

template <typename R>
void compare(const fs::path& path, Activations activations, double tolerance, int threads = 1) {
  const Golden golden(path);
  ModelParameters<R> model = golden.model<R>();
  ThreadPool pool(threads);
  TrainingPass<R> pass(model, activations, pool);
  const PassSums sums = pass.run(golden.batch.view(), golden.options);
  const Json& expected = golden.json["expected"];
  const auto expect = [&](const char* name, double value) {
    EXPECT_NEAR(value / expected[name].get<double>(), 1, tolerance) << name;
  };
  expect("loss_sum", sums.loss);
  expect("logit_norm_sum", sums.logit_norm);
  expect("scale_sum", sums.scale);
  EXPECT_EQ(sums.count, expected["count"]);
  EXPECT_EQ(sums.scale_count, expected["scale_count"]);
  const Json& anchor = expected["anchor_sum"];
  const double right_anchor = anchor.is_null() ? 0 : anchor.get<double>();
  EXPECT_NEAR(sums.anchor, right_anchor, tolerance * 10 * right_anchor);

  size_t compared = 0;
  for (const ParameterSlice& slice : model.layout().slices()) {
    if (!golden.file.find("grad." + slice.name)) continue;
    ++compared;
    const auto right = golden.values<double>("grad." + slice.name);
    const auto ours = test::part(model.gradients(), slice.range);
    if (std::all_of(right.begin(), right.end(), [](double x) { return x == 0; }))
      EXPECT_TRUE(std::all_of(ours.begin(), ours.end(), [](R x) { return x == 0; })) << slice.name;
    else
      EXPECT_LT(test::relative_error(ours, right), 10 * tolerance) << slice.name;
  }
  const size_t theirs = static_cast<size_t>(
      std::count_if(golden.file.tensors().begin(), golden.file.tensors().end(),
                    [](const TensorView& tensor) { return tensor.name.starts_with("grad."); }));
  EXPECT_EQ(compared, theirs) << "a gradient was not compared";
}

TEST_P(PassGoldens, Double_IsPyTorchsToRounding) {
  for (const int threads : {1, 2}) compare<double>(GetParam(), Activations::kFull, 1e-12, threads);
}

TEST_P(PassGoldens, Float_IsPyTorchsToItsPrecision) {
  compare<float>(GetParam(), Activations::kFull, 2e-6);
}

TEST_P(PassGoldens, BFloat16_IsPyTorchsToItsPrecision) {
  compare<float>(GetParam(), Activations::kBF16, 1e-2);
}

// The cases before the taper.
std::vector<fs::path> goldens_to_calibrate() {
  std::vector<fs::path> paths = goldens();
  std::erase_if(paths, [](const fs::path& path) {
    const Golden golden(path);
    return golden.tapered || golden.json["expected"]["calibration"].empty();
  });
  return paths;
}

class PassGoldensBeforeTheTaper : public testing::TestWithParam<fs::path> {};

TEST_P(PassGoldensBeforeTheTaper, CalibrationSums_ArePyTorchs) {
  const Golden golden(GetParam());
  const Json& expected = golden.json["expected"]["calibration"];
  ModelParameters<double> model = golden.model<double>();
  ThreadPool pool(1);
  TrainingPass<double> pass(model, Activations::kFull, pool);
  PassOptions options = golden.options;
  options.calibrate = true;
  const PassSums sums = pass.run(golden.batch.view(), options);
  for (const NormSite& site : norm_sites(golden.config)) {
    const TaperNormSums& ours = sums.norms.at(static_cast<size_t>(site.index));
    if (!expected.contains(site.name)) {
      EXPECT_EQ(ours.rows, 0) << site.name;
      continue;
    }
    const Json& right = expected[site.name];
    EXPECT_NEAR(ours.numerator / right[0].get<double>(), 1, 1e-12) << site.name;
    EXPECT_NEAR(ours.denominator / right[1].get<double>(), 1, 1e-12) << site.name;
    EXPECT_NEAR(ours.scale / right[2].get<double>(), 1, 1e-12) << site.name;
    EXPECT_EQ(ours.rows, right[3].get<int64_t>()) << site.name;
  }
}

std::string name_of(const testing::TestParamInfo<fs::path>& golden) {
  return golden.param.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Cases, PassGoldensBeforeTheTaper,
                         testing::ValuesIn(goldens_to_calibrate()), name_of);
INSTANTIATE_TEST_SUITE_P(Cases, PassGoldens, testing::ValuesIn(goldens()), name_of);

}  // namespace
}  // namespace taper
