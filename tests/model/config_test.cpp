#include "model/config.h"

#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "model/error_matchers.h"
#include "model/random_checkpoint.h"

namespace taper {
namespace {

Json hf_config() {
  return parse_json(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 101,
    "hidden_size": 48, "intermediate_size": 77, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 2e-6, "rope_theta": 5000.5, "hidden_act": "silu",
    "tie_word_embeddings": true, "bos_token_id": 3, "eos_token_id": 4,
    "pretraining_tp": 1, "attention_dropout": 0.0})",
                    "config.json");
}

TEST(ModelConfig, HfConfig_IsReadByItsNames) {
  const ModelConfig config = from_config_json(hf_config(), "config.json");
  EXPECT_EQ(config.vocab_size, 101);
  EXPECT_EQ(config.width, 48);
  EXPECT_EQ(config.ffn_width, 77);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.num_heads, 6);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_width, 8);
  EXPECT_EQ(config.context, 64);
  EXPECT_EQ(config.norm_eps, 2e-6);
  EXPECT_EQ(config.rope_theta, 5000.5);
  EXPECT_TRUE(config.tied_head);
  EXPECT_EQ(config.bos_id, 3);
  EXPECT_EQ(config.eos_id, 4);
}

TEST(ModelConfig, RandomConfigs_SurviveTheRoundTripAndCountTheirTensors) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ModelConfig config = test::random_config(seed, seed % 2 == 0);
    config.validate("test");
    const Json json = parse_json(to_config_json(config).dump(), "json");
    EXPECT_EQ(to_config_json(from_config_json(json, "json")), to_config_json(config));
    int64_t elements = 0;
    for (const TensorSpec& spec : expected_tensors(config, {})) {
      int64_t size = 1;
      for (const int64_t extent : spec.shape) size *= extent;
      elements += size;
    }
    EXPECT_EQ(Architecture(config).num_parameters(), elements);
  }
}

TEST(ModelConfig, MissingEps_IsAnErrorNotADefault) {
  Json json = hf_config();
  json.erase("rms_norm_eps");
  EXPECT_ERROR(from_config_json(json, "here/config.json"), FormatError, "here/config.json",
               "rms_norm_eps");
}

TEST(ModelConfig, NewerRopeParameters_AreRead) {
  Json json = hf_config();
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 123456.0}};
  EXPECT_EQ(from_config_json(json, "config.json").rope_theta, 123456.0);
  json["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_ERROR(from_config_json(json, "config.json"), FormatError, "rope_parameters", "yarn");
}

TEST(ModelConfig, ListOfEosIds_TakesTheFirst) {
  Json json = hf_config();
  json["eos_token_id"] = {7, 9};
  EXPECT_EQ(from_config_json(json, "config.json").eos_id, 7);
  json["bos_token_id"] = nullptr;
  EXPECT_EQ(from_config_json(json, "config.json").bos_id, -1);
}

struct Change {
  const char* key;
  Json value;
  const char* mentioned;
};

class UnusableHfConfig : public testing::TestWithParam<Change> {};

TEST_P(UnusableHfConfig, IsRefusedNamingTheKey) {
  Json json = hf_config();
  json[GetParam().key] = GetParam().value;
  EXPECT_ERROR(from_config_json(json, "config.json"), FormatError, "config.json", GetParam().key,
               GetParam().mentioned);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, UnusableHfConfig,
    testing::Values(
        Change{"model_type", "mistral", "mistral"}, Change{"hidden_act", "gelu", "gelu"},
        Change{"attention_bias", true, "not supported"}, Change{"mlp_bias", true, "not supported"},
        Change{"rope_scaling", {{"rope_type", "linear"}}, "not supported"},
        Change{"quantization_config", {{"bits", 4}}, "not supported"},
        Change{"hidden_size", 0, "hidden_size is 0"}, Change{"hidden_size", "48", "hidden_size"},
        Change{"vocab_size", -5, "-5"}, Change{"intermediate_size", int64_t{1} << 40, "allowed"},
        Change{"num_attention_heads", 7, "num_key_value_heads"},
        Change{"num_attention_heads", 10, "does not divide"},
        Change{"num_key_value_heads", 4, "does not divide"}, Change{"head_dim", 7, "odd"},
        Change{"rms_norm_eps", 0.0, "rms_norm_eps"}, Change{"rms_norm_eps", 2.0, "rms_norm_eps"},
        Change{"rope_theta", -1.0, "rope_theta"}, Change{"bos_token_id", 101, "bos_token_id"}));

TEST(ModelConfig, HeadsThatDoNotDivideTheWidth_AreRefusedWithOurNames) {
  ModelConfig config = test::random_config(1, true);
  config.width = 64;
  config.num_heads = 5;
  config.num_kv_heads = 5;
  for (const int64_t head_width : {0, 12}) {
    config.head_width = head_width;
    EXPECT_ERROR(config.validate("tiny.toml"), ConfigError, "tiny.toml", "num_heads (5)",
                 "width (64)");
  }
  config.head_width = 14;  // stated: then heads need not add up to the width
  config.validate("tiny.toml");
}

}  // namespace
}  // namespace taper
