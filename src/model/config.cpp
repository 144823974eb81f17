#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/log.h"

namespace taper {
namespace {

// Bounds that keep every product of sizes far inside 64 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxContext = int64_t{1} << 31;

// The names under which a reader of the message knows the values.
struct KeyNames {
  const char* vocab_size;
  const char* width;
  const char* num_layers;
  const char* num_heads;
  const char* num_kv_heads;
  const char* head_width;
  const char* ffn_width;
  const char* context;
  const char* rope_theta;
  const char* norm_eps;
  const char* bos_id;
  const char* eos_id;
};

constexpr KeyNames kOurNames = {"vocab_size",   "width",      "num_layers", "num_heads",
                                "num_kv_heads", "head_width", "ffn_width",  "context",
                                "rope_theta",   "norm_eps",   "bos_id",     "eos_id"};
constexpr KeyNames kHfNames = {
    "vocab_size",          "hidden_size",  "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim",     "intermediate_size", "max_position_embeddings",
    "rope_theta",          "rms_norm_eps", "bos_token_id",      "eos_token_id"};

std::optional<std::string> outside(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return fmt::format("{} is {}, allowed are {} to {}", name, value, low, high);
}

// The first rule that `config` breaks, as a sentence.
std::optional<std::string> broken_rule(const ModelConfig& config, const KeyNames& names) {
  if (config.family != "llama")
    return fmt::format("the model family \"{}\" is not supported (known: llama)", config.family);
  const bool built = config.norm == NormKind::kRms && config.positions == PositionKind::kRotary &&
                     config.mlp == MlpKind::kSwiGlu && !config.qkv_bias && !config.linear_bias;
  if (!built)
    return "only RMSNorm, rotary positions, SwiGLU and layers without biases are supported, "
           "together";
  struct Bound {
    const char* name;
    int64_t value;
    int64_t high;
  };
  for (const Bound& bound : {Bound{names.vocab_size, config.vocab_size, kMaxWidth},
                             Bound{names.width, config.width, kMaxWidth},
                             Bound{names.num_layers, config.num_layers, kMaxLayers},
                             Bound{names.num_heads, config.num_heads, kMaxWidth},
                             Bound{names.num_kv_heads, config.num_kv_heads, kMaxWidth},
                             Bound{names.ffn_width, config.ffn_width, kMaxWidth},
                             Bound{names.context, config.context, kMaxContext}})
    if (auto rule = outside(bound.name, bound.value, 1, bound.high)) return rule;
  if (config.num_heads % config.num_kv_heads != 0) {
    return fmt::format("{} ({}) does not divide {} ({})", names.num_kv_heads, config.num_kv_heads,
                       names.num_heads, config.num_heads);
  }
  // A head width that is just the rounded-down quotient is no choice of the user.
  if (config.width % config.num_heads != 0 &&
      (config.head_width == 0 || config.head_width == config.width / config.num_heads)) {
    return fmt::format("{} ({}) does not divide {} ({})", names.num_heads, config.num_heads,
                       names.width, config.width);
  }
  if (auto rule = outside(names.head_width, config.head_width, 2, kMaxWidth)) return rule;
  if (config.head_width % 2 != 0) {
    return fmt::format("{} ({}) is odd; rotary embedding turns pairs, so it must be even",
                       names.head_width, config.head_width);
  }
  if (config.q_width() > kMaxWidth) {
    return fmt::format("{} * {} is {}, allowed are at most {}", names.num_heads, names.head_width,
                       config.q_width(), kMaxWidth);
  }
  if (!std::isfinite(config.rope_theta) || config.rope_theta <= 0)
    return fmt::format("{} is {}, it must be positive", names.rope_theta, config.rope_theta);
  if (!(config.norm_eps > 0) || config.norm_eps >= 1)
    return fmt::format("{} is {}, it must lie between 0 and 1", names.norm_eps, config.norm_eps);
  if (auto rule = outside(names.bos_id, config.bos_id, -1, config.vocab_size - 1)) return rule;
  return outside(names.eos_id, config.eos_id, -1, config.vocab_size - 1);
}

[[noreturn]] void unsupported(const std::string& what, const char* key, const std::string& found,
                              const std::string& expected) {
  throw FormatError(fmt::format("{}: {} is {}, which is not supported (expected {})", what, key,
                                found, expected));
}

// A switch that this project has no implementation for: absent, null or `false` only.
void require_off(const Json& json, const char* key, const std::string& what) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null() || (it->is_boolean() && !it->get<bool>())) return;
  unsupported(what, key, it->dump(), "null or false");
}

double read_rope_theta(const Json& json, const std::string& what) {
  require_off(json, "rope_scaling", what);
  const double theta = json_value<double>(json, "rope_theta", 10000.0, what);
  const auto it = json.find("rope_parameters");
  if (it == json.end() || it->is_null()) return theta;
  const auto type = json_value<std::string>(*it, "rope_type", "default", what);
  if (type != "default") unsupported(what, "rope_parameters.rope_type", type, "default");
  return json_value<double>(*it, "rope_theta", theta, what);
}

// bos_token_id and eos_token_id: a number, null, or (Llama 3) a list of ids that all end a text.
int64_t read_token_id(const Json& json, const char* key, const std::string& what) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array()) return json_value<int64_t>(json, key, -1, what);
  if (it->empty() || !it->front().is_number_integer()) {
    throw FormatError(
        fmt::format("{}: {} is {}, expected an id or a list of ids", what, key, it->dump()));
  }
  if (it->size() > 1)
    log_warning(fmt::format("{}: {} lists {} ids, only the first is used", what, key, it->size()));
  return it->front().get<int64_t>();
}

void check_family(const Json& json, const std::string& what) {
  const auto type = json_at<std::string>(json, "model_type", what);
  if (type != "llama" && type != "taper_llama")
    unsupported(what, "model_type", '"' + type + '"', "\"llama\" or \"taper_llama\"");
  const auto activation = json_value<std::string>(json, "hidden_act", "silu", what);
  if (activation != "silu" && activation != "swish")
    unsupported(what, "hidden_act", '"' + activation + '"', "\"silu\"");
  for (const char* key : {"attention_bias", "mlp_bias", "quantization_config"})
    require_off(json, key, what);
}

}  // namespace

void ModelConfig::validate(const std::string& where) const {
  if (const auto rule = broken_rule(*this, kOurNames)) throw ConfigError(where + ": " + *rule);
}

Json to_config_json(const ModelConfig& config) {
  Json json;
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.width;
  json["intermediate_size"] = config.ffn_width;
  json["num_hidden_layers"] = config.num_layers;
  json["num_attention_heads"] = config.num_heads;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_width;
  json["max_position_embeddings"] = config.context;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = config.norm_eps;
  json["rope_theta"] = config.rope_theta;
  json["rope_scaling"] = nullptr;
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  json["tie_word_embeddings"] = config.tied_head;
  json["bos_token_id"] = config.bos_id < 0 ? Json(nullptr) : Json(config.bos_id);
  json["eos_token_id"] = config.eos_id < 0 ? Json(nullptr) : Json(config.eos_id);
  return json;
}

ModelConfig from_config_json(const Json& json, const std::string& what) {
  if (!json.is_object()) throw FormatError(what + ": expected a JSON object");
  check_family(json, what);
  ModelConfig config;
  config.vocab_size = json_at<int64_t>(json, "vocab_size", what);
  config.width = json_at<int64_t>(json, "hidden_size", what);
  config.ffn_width = json_at<int64_t>(json, "intermediate_size", what);
  config.num_layers = json_at<int64_t>(json, "num_hidden_layers", what);
  config.num_heads = json_at<int64_t>(json, "num_attention_heads", what);
  config.num_kv_heads = json_value<int64_t>(json, "num_key_value_heads", config.num_heads, what);
  config.head_width = json_value<int64_t>(json, "head_dim", 0, what);
  if (config.head_width == 0 && config.num_heads > 0)
    config.head_width = config.width / config.num_heads;
  config.context = json_at<int64_t>(json, "max_position_embeddings", what);
  config.norm_eps = json_at<double>(json, "rms_norm_eps", what);  // never defaulted
  config.rope_theta = read_rope_theta(json, what);
  config.tied_head = json_value<bool>(json, "tie_word_embeddings", false, what);
  config.bos_id = read_token_id(json, "bos_token_id", what);
  config.eos_id = read_token_id(json, "eos_token_id", what);
  if (const auto rule = broken_rule(config, kHfNames)) throw FormatError(what + ": " + *rule);
  return config;
}

}  // namespace taper
