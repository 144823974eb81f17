#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "temp_dir.h"

namespace taper {
namespace {

namespace fs = std::filesystem;
using test::random_model;
using test::RandomModel;

TEST(TaperState, EveryField_SurvivesTheRoundTrip) {
  TaperState state;
  state.scope = TaperScope::kAll;
  state.phase = "taper";
  state.gate = 0.3712345678901234;
  state.anchor = true;
  state.anchor_weight = 0.1;
  state.anchor_target = 1.0 / 3;
  state.ema_weight = 0.01;
  const ModelConfig config = test::random_config(3, true);
  state.calibration.resize(norm_sites(config).size());
  state.calibration.back() = {{0.1 + 0.2, 17}, {1e-300, 18}};
  state.final_scale = {2.0 / 3, 19};
  state.tapered = {"model.norm"};
  state.source = {{"command", "import"}};
  const Json json = parse_json(to_json(state, config).dump(), "taper.json");
  const TaperState again = taper_state_from_json(json, config, "taper.json");
  EXPECT_EQ(to_json(again, config), to_json(state, config));
  EXPECT_EQ(json["numerators"].size(), 1u) << "a norm without samples is not listed";
  EXPECT_EQ(again.gate, state.gate);
  EXPECT_EQ(again.calibration.back().numerator.value, 0.1 + 0.2);
  EXPECT_EQ(again.calibration.back().denominator.updates, 18);
  EXPECT_EQ(again.anchor_target, state.anchor_target);
}

TEST(TaperState, WrongContent_IsRefusedNamingThePlace) {
  const ModelConfig config = test::random_config(3, true);
  const Json good = to_json(TaperState{}, config);
  const auto with = [&](const char* key, Json value) {
    Json json = good;
    json[key] = std::move(value);
    return json;
  };
  EXPECT_ERROR(taper_state_from_json(with("version", 2), config, "t"), FormatError, "version is 2");
  EXPECT_ERROR(taper_state_from_json(with("scope", "some"), config, "t"), FormatError, "some");
  EXPECT_ERROR(taper_state_from_json(with("phase", "done"), config, "t"), FormatError, "done");
  EXPECT_ERROR(taper_state_from_json(with("tapered", "x"), config, "t"), FormatError, "tapered");
  EXPECT_ERROR(taper_state_from_json(with("numerators", {{"a", 3}}), config, "t"), FormatError,
               "numerators", "\"a\"");
  EXPECT_ERROR(taper_state_from_json(with("numerators", {{"model.norm", 3}}), config, "t"),
               FormatError, "numerators.model.norm");
  EXPECT_ERROR(taper_state_from_json(Json::array(), config, "t"), FormatError, "object");
}

TEST(TaperState, StatesThatContradictTheModel_AreRefused) {
  const ModelConfig config = test::random_config(5, true);
  TaperState good;
  good.scope = TaperScope::kAll;
  good.gate = 0;
  good.folded = {"model.layers.0.input_layernorm"};
  check_taper_state(config, good, "t");
  TaperState state = good;
  state.tapered = {"model.layers.0.input_layernorm"};
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "twice");
  state = good;
  state.folded = {"model.layers.99.input_layernorm"};
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "layers.99");
  state = good;
  state.scope = TaperScope::kFinal;
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "outside the scope");
  state = good;
  state.gate = 0.5;
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "0.5");
  state = good;
  state.folded = {"model.norm"};
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "tied");
  state = TaperState{};
  state.gate = 0.5;
  EXPECT_ERROR(check_taper_state(config, state, "t"), FormatError, "no norm is tapered");
}

class AnyModel : public testing::TestWithParam<std::tuple<TaperScope, bool>> {};

TEST_P(AnyModel, WrittenCheckpoint_OpensWithTheSameContent) {
  const auto [scope, tied] = GetParam();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const TempDir dir;
    const RandomModel model = random_model(seed, scope, tied, 0.25);
    model.write(dir / "m", "{}");
    const Checkpoint checkpoint = Checkpoint::open(dir / "m");
    EXPECT_EQ(to_config_json(checkpoint.config()), to_config_json(model.config));
    EXPECT_EQ(to_json(checkpoint.taper(), model.config), to_json(model.taper, model.config));
    ASSERT_EQ(checkpoint.tensors().views().size(), model.tensors.views().size());
    for (const TensorView& view : model.tensors.views()) {
      const TensorView& read = checkpoint.tensors().at(view.name);
      ASSERT_EQ(read.data.size(), view.data.size());
      EXPECT_EQ(std::memcmp(read.data.data(), view.data.data(), view.data.size()), 0);
    }
    for (const NormSite& site : norm_sites(model.config)) {
      EXPECT_EQ(checkpoint.norm_state(site),
                in_scope(site, scope) ? NormState::kTapered : NormState::kPlain);
    }
    EXPECT_EQ(checkpoint.tokenizer_path(), dir / "m" / "tokenizer.json");
  }
}

INSTANTIATE_TEST_SUITE_P(ScopesAndHeads, AnyModel,
                         testing::Combine(testing::Values(TaperScope::kNone, TaperScope::kInternal,
                                                          TaperScope::kFinal, TaperScope::kAll),
                                          testing::Bool()));

TEST(Checkpoint, ModelTypeOfATaperedModel_IsNotPlainLlama) {
  const TempDir dir;
  random_model(1, TaperScope::kNone, true).write(dir / "plain");
  random_model(1, TaperScope::kInternal, true).write(dir / "tapered");
  const auto type = [&](const char* name) {
    return parse_json(read_file(dir / name / "config.json"), name)["model_type"];
  };
  EXPECT_EQ(type("plain"), "llama");
  EXPECT_EQ(type("tapered"), "taper_llama");
  fs::remove(dir / "tapered" / "taper.json");
  EXPECT_ERROR(Checkpoint::open(dir / "tapered"), FormatError, "taper.json");
}

TEST(Checkpoint, WithoutTaperJson_IsAPlainForeignModel) {
  const TempDir dir;
  random_model(2, TaperScope::kNone, false).write(dir / "m");
  fs::remove(dir / "m" / "taper.json");
  const Checkpoint checkpoint = Checkpoint::open(dir / "m");
  EXPECT_EQ(checkpoint.taper().phase, "plain");
  EXPECT_EQ(checkpoint.taper().gate, 1.0);
  EXPECT_FALSE(checkpoint.tokenizer_path());
}

// Writes the tensors of `model` after `edit`, past the checks of write_checkpoint_files.
void write_with(const RandomModel& model, const fs::path& directory,
                const std::function<void(std::vector<TensorView>&)>& edit) {
  model.write(directory);
  std::vector<TensorView> tensors(model.tensors.views().begin(), model.tensors.views().end());
  edit(tensors);
  write_safetensors(directory / "model.safetensors", tensors);
}

TensorView& named(std::vector<TensorView>& tensors, std::string_view name) {
  return *std::find_if(
      tensors.begin(), tensors.end(),
      [&](const TensorView& tensor) { return tensor.name == name; });
}

TEST(Checkpoint, EachMissingTensor_IsNamed) {
  const RandomModel model = random_model(7, TaperScope::kInternal, false);
  for (size_t i = 0; i < model.tensors.views().size(); ++i) {
    const TempDir dir;
    std::string name;
    write_with(model, dir / "m", [&](std::vector<TensorView>& tensors) {
      name = tensors[i].name;
      tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(i));
    });
    EXPECT_ERROR(Checkpoint::open(dir / "m"), FormatError, name.c_str(), "missing");
  }
}

TEST(Checkpoint, UnconsumedTensor_IsNamedButKnownBuffersAreNot) {
  const RandomModel model = random_model(8, TaperScope::kNone, true);
  const TempDir dir;
  const std::vector<float> values(5, 0.5f);
  const auto extra = [&](const char* name) {
    write_with(model, dir / "m", [&](std::vector<TensorView>& tensors) {
      tensors.push_back({name, DType::kF32, {5}, std::as_bytes(std::span(values))});
    });
  };
  extra("model.layers.0.self_attn.q_proj.bias");
  EXPECT_ERROR(Checkpoint::open(dir / "m"), FormatError, "q_proj.bias", "no place");
  extra("model.layers.0.self_attn.rotary_emb.inv_freq");
  Checkpoint::open(dir / "m");
}

TEST(Checkpoint, WrongShapeOrType_IsNamed) {
  const RandomModel model = random_model(9, TaperScope::kNone, true);
  const TempDir dir;
  constexpr const char* kDown = "model.layers.0.mlp.down_proj.weight";
  write_with(model, dir / "m", [](std::vector<TensorView>& tensors) {
    std::swap(named(tensors, kDown).shape[0], named(tensors, kDown).shape[1]);
  });
  EXPECT_ERROR(Checkpoint::open(dir / "m"), ShapeError, kDown, "shape");
  write_with(model, dir / "m", [](std::vector<TensorView>& tensors) {
    named(tensors, "model.norm.weight").dtype = DType::kI32;
  });
  EXPECT_ERROR(Checkpoint::open(dir / "m"), FormatError, "model.norm.weight", "I32");
}

TEST(Checkpoint, TiedModelWithAHead_NeedsItToEqualTheEmbedding) {
  const RandomModel model = random_model(10, TaperScope::kNone, true);
  const TempDir dir;
  write_with(model, dir / "m", [](std::vector<TensorView>& tensors) {
    tensors.push_back(named(tensors, "model.embed_tokens.weight"));
    tensors.back().name = "lm_head.weight";
  });
  EXPECT_TRUE(Checkpoint::open(dir / "m").config().tied_head);
  std::vector<float> head = to_float32(model.tensors.at("model.embed_tokens.weight"));
  head.back() += 0.5f;
  write_with(model, dir / "m", [&](std::vector<TensorView>& tensors) {
    tensors.push_back(named(tensors, "model.embed_tokens.weight"));
    tensors.back().name = "lm_head.weight";
    tensors.back().data = std::as_bytes(std::span(head));
  });
  EXPECT_ERROR(Checkpoint::open(dir / "m"), FormatError, "lm_head.weight", "ties");
}

TEST(Checkpoint, WriterRefusesAnIncompleteModel) {
  RandomModel model = random_model(11, TaperScope::kNone, true);
  const TempDir dir;
  model.config.num_layers += 1;
  EXPECT_ERROR(model.write(dir / "m"), FormatError, "missing");
  EXPECT_FALSE(fs::exists(dir / "m" / "model.safetensors"));
}

TEST(ResolveCheckpoint, RunDirectory_FollowsLatest) {
  const TempDir dir;
  const RandomModel model = random_model(12, TaperScope::kNone, true);
  model.write(dir / "run" / "checkpoints" / "step-30");
  const auto latest = [&](const char* text) {
    std::ofstream(dir / "run" / "checkpoints" / "latest") << text;
  };
  latest("step-30\n");
  EXPECT_EQ(Checkpoint::open(dir / "run").path(), dir / "run" / "checkpoints" / "step-30");
  latest("step-40");
  EXPECT_ERROR(resolve_checkpoint(dir / "run"), FormatError, "latest", "step-40");
  for (const char* text : {"", "..", "../checkpoints/step-30", "/etc"}) {
    latest(text);
    EXPECT_ERROR(resolve_checkpoint(dir / "run"), FormatError, "latest", "expected the name");
  }
  EXPECT_ERROR(resolve_checkpoint(dir / "run" / "checkpoints"), FormatError, "neither");
  EXPECT_ERROR(resolve_checkpoint(dir / "absent"), FormatError, "absent");
}

// The model's tensors as a set that shares what the model owns.
std::shared_ptr<TensorSet> shared(std::shared_ptr<const RandomModel> model) {
  auto tensors = std::make_shared<TensorSet>();
  for (const TensorView& view : model->tensors.views()) tensors->add_view(view);
  tensors->keep(std::move(model));
  return tensors;
}

TEST(CheckpointInMemory, WithoutADirectory_IsWhatOpeningOneWouldGive) {
  const TempDir dir;
  auto model = std::make_shared<RandomModel>(random_model(13, TaperScope::kInternal, false, 0.25));
  const std::weak_ptr<const RandomModel> watched = model;
  model->write(dir / "m");
  const Checkpoint opened = Checkpoint::open(dir / "m");
  std::optional<Checkpoint> checkpoint =
      Checkpoint::in_memory(model->config, model->taper, shared(model), "the model");
  model.reset();

  EXPECT_EQ(checkpoint->what(), "the model");
  EXPECT_TRUE(checkpoint->path().empty());
  EXPECT_FALSE(checkpoint->tokenizer_path());
  EXPECT_EQ(checkpoint->taper().gate, 0.25);
  for (const NormSite& site : norm_sites(opened.config()))
    EXPECT_EQ(checkpoint->norm_state(site), opened.norm_state(site)) << site.name;
  for (const TensorView& view : opened.tensors().views())
    EXPECT_EQ(to_float32(checkpoint->tensors().at(view.name)), to_float32(view)) << view.name;

  const Checkpoint copy = *checkpoint;
  checkpoint.reset();
  EXPECT_FALSE(watched.expired());  // the copy keeps what the tensors lie in
  EXPECT_EQ(opened.what(), (dir / "m").string());
}

TEST(CheckpointInMemory, TensorsOrStateThatDoNotFit_AreAnError) {
  const auto model = std::make_shared<RandomModel>(random_model(14, TaperScope::kInternal, true));
  ModelConfig wider = model->config;
  wider.ffn_width += 1;
  EXPECT_ERROR(Checkpoint::in_memory(wider, model->taper, shared(model), "the model"), ShapeError,
               "the model", "gate_proj");
  auto more = shared(model);
  more->add("model.layers.0.mlp.router.weight", {3, 5});
  EXPECT_ERROR(Checkpoint::in_memory(model->config, model->taper, more, "the model"), FormatError,
               "the model", "router");
  TaperState state = model->taper;
  state.folded = {"model.layers.99.input_layernorm"};
  EXPECT_ERROR(Checkpoint::in_memory(model->config, state, shared(model), "the model"), FormatError,
               "the model", "layers.99");
}

}  // namespace
}  // namespace taper
