// What a model is: one description for every family, read by the trainer, the engine and the
// exporters. On disk it is config.json, in the names of the Hugging Face ecosystem.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace taper {

enum class NormKind { kRms, kLayerNorm };
enum class PositionKind { kRotary, kLearned };
enum class MlpKind { kSwiGlu, kGelu };  // silu(gate) * up; gelu(up)

struct ModelConfig {
  std::string family = "llama";
  NormKind norm = NormKind::kRms;
  PositionKind positions = PositionKind::kRotary;
  MlpKind mlp = MlpKind::kSwiGlu;
  bool qkv_bias = false;     // of q, k and v
  bool linear_bias = false;  // of the other linear layers in the blocks
  int64_t vocab_size = 0;
  int64_t width = 0;  // D, hidden_size
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_width = 0;    // K; width / num_heads unless given
  int64_t ffn_width = 0;     // F, intermediate_size
  int64_t context = 0;       // max_position_embeddings
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tied_head = true;
  int64_t bos_id = -1;  // -1: the model has none
  int64_t eos_id = -1;

  int64_t q_width() const { return num_heads * head_width; }
  int64_t kv_width() const { return num_kv_heads * head_width; }

  // Every rule a usable model obeys (positive sizes, heads divide, even head width, a combination
  // of kinds that is built, ...): ConfigError naming the key, the value and what is allowed.
  // `where` prefixes the message.
  void validate(const std::string& where) const;
};

Json to_config_json(const ModelConfig& config);                           // HF LlamaConfig names
ModelConfig from_config_json(const Json& json, const std::string& what);  // FormatError

}  // namespace taper
