#include "formats/hf_directory.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/json.h"
#include "model/checkpoint.h"
#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;

// A random plain model, its tensors dealt out to two files.
class SplitModel : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(dir_.path());
    write_file_atomically(dir_ / "config.json", to_config_json(model_.config).dump());
    for (const TensorView& view : model_.tensors.views()) {
      const size_t file = view.name.size() % 2;
      parts_[file].push_back(view);
      index_["weight_map"][view.name] = kFiles[file];
    }
    write();
  }

  void write() {
    for (size_t file = 0; file < 2; ++file) write_safetensors(dir_ / kFiles[file], parts_[file]);
    write_file_atomically(dir_ / "model.safetensors.index.json", index_.dump());
  }

  static constexpr const char* kFiles[2] = {"model-00001-of-00002.safetensors",
                                            "model-00002-of-00002.safetensors"};
  TempDir dir_;
  test::RandomModel model_ = test::random_model(21, TaperScope::kNone, false);
  std::vector<TensorView> parts_[2];
  Json index_ = {{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
};

TEST_F(SplitModel, Shards_AreJoinedInOrder) {
  const HfModel read = read_hf_directory(dir_.path());
  const auto tensors = read.tensors.views();
  ASSERT_EQ(tensors.size(), model_.tensors.views().size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& expected = model_.tensors.views()[i];
    ASSERT_EQ(tensors[i].name, expected.name);
    EXPECT_EQ(std::memcmp(tensors[i].data.data(), expected.data.data(), expected.data.size()), 0);
  }
}

TEST_F(SplitModel, OpenedAsACheckpoint_IsRefusedWithTheWayOut) {
  try {
    Checkpoint::open(dir_.path());
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.hint(), testing::HasSubstr("taper import"));
  }
}

TEST_F(SplitModel, AbsentShard_IsNamed) {
  fs::remove(dir_ / kFiles[1]);
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, kFiles[1], "absent");
}

TEST_F(SplitModel, IndexedTensorThatNoShardHolds_IsNamed) {
  const std::string name = parts_[0].back().name;
  parts_[0].pop_back();
  write();
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, name.c_str(), "lacks");
}

TEST_F(SplitModel, TensorThatTheIndexOmitsOrMisplaces_IsNamed) {
  const std::string name = parts_[0].back().name;
  index_["weight_map"][name] = kFiles[1];
  write();
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, name.c_str(), "places in");
  index_["weight_map"].erase(name);
  write();
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, name.c_str(), "does not list");
}

TEST_F(SplitModel, IndexThatLeavesTheDirectory_IsRefused) {
  for (const Json& file : {Json("../x.safetensors"), Json("/etc/passwd"), Json(""), Json(3)}) {
    index_["weight_map"]["model.norm.weight"] = file;
    write();
    EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, "model.norm.weight", "beside");
  }
  write_file_atomically(dir_ / "model.safetensors.index.json", "{}");
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, "weight_map");
}

TEST_F(SplitModel, TensorThatTheModelDoesNotKnow_IsNamed) {
  TensorView stray = parts_[1].front();
  stray.name = "model.layers.0.self_attn.q_norm.weight";
  parts_[1].push_back(stray);
  index_["weight_map"][stray.name] = kFiles[1];
  write();
  EXPECT_ERROR(read_hf_directory(dir_.path()), FormatError, stray.name.c_str(), "no place");
}

TEST(HfDirectory, TensorsInOneFile_AreReadInOrderAndAnUnknownOneIsNamed) {
  const TempDir dir;
  const test::RandomModel model = test::random_model(22, TaperScope::kNone, true);
  fs::create_directories(dir.path());
  write_file_atomically(dir / "config.json", to_config_json(model.config).dump());
  std::vector<TensorView> views(model.tensors.views().rbegin(), model.tensors.views().rend());
  write_safetensors(dir / "model.safetensors", views);
  const HfModel read = read_hf_directory(dir.path());
  EXPECT_EQ(read.tensors.views().front().name, model.tensors.views().front().name);
  EXPECT_EQ(to_float32(read.tensors.views().back()), to_float32(model.tensors.views().back()));

  TensorView stray = views.front();
  stray.name = "model.layers.0.mlp.router.weight";
  views.push_back(stray);
  write_safetensors(dir / "model.safetensors", views);
  EXPECT_ERROR(read_hf_directory(dir.path()), FormatError, stray.name.c_str(), "no place");
}

TEST(HfDirectory, WithoutWeightsOrConfig_SaysWhatIsMissing) {
  const TempDir dir;
  EXPECT_ERROR(read_hf_directory(dir.path()), FormatError, "config.json");
  write_file_atomically(dir / "config.json", to_config_json(test::random_config(1, true)).dump());
  EXPECT_ERROR(read_hf_directory(dir.path()), FormatError, "model.safetensors");
}

}  // namespace
}  // namespace taper
