#include "formats/llama2c.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "model/checkpoint.h"
#include "model/names.h"

namespace taper {
namespace {

constexpr size_t kHeaderFields = 7;
constexpr size_t kHeaderBytes = kHeaderFields * sizeof(int32_t);

// The stacks of a file in its order, each holding one slot's weights of all layers, by the names
// that llama2.c has for them.
constexpr NameRule kStacks[] = {
    {Slot::kEmbedding, "tok_embeddings"},
    {Slot::kAttentionNorm, "rms_att"},
    {Slot::kQ, "wq", Transform::kRotaryPairs},
    {Slot::kK, "wk", Transform::kRotaryPairs},
    {Slot::kV, "wv"},
    {Slot::kAttentionOut, "wo"},
    {Slot::kMlpNorm, "rms_ffn"},
    {Slot::kGate, "w1"},
    {Slot::kDown, "w2"},
    {Slot::kUp, "w3"},
    {Slot::kFinalNorm, "rms_final"},
    {Slot::kHead, "wcls"},
};

ModelConfig read_header(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() < kHeaderBytes) {
    throw FormatError(fmt::format("{}: {} bytes, too short for the {}-byte header of llama2.c",
                                  what, bytes.size(), kHeaderBytes));
  }
  std::array<int32_t, kHeaderFields> field;
  std::memcpy(field.data(), bytes.data(), kHeaderBytes);
  ModelConfig config;
  config.width = field[0];
  config.ffn_width = field[1];
  config.num_layers = field[2];
  config.num_heads = field[3];
  config.num_kv_heads = field[4];
  config.tied_head = field[5] > 0;
  config.vocab_size = field[5] > 0 ? field[5] : -int64_t{field[5]};
  config.context = field[6];
  config.head_width = config.num_heads > 0 ? config.width / config.num_heads : 0;
  config.rope_theta = 10000.0;
  config.norm_eps = 1e-5;
  config.bos_id = config.vocab_size > 1 ? 1 : -1;
  config.eos_id = config.vocab_size > 2 ? 2 : -1;
  try {
    config.validate(what + ": header of a llama2.c model");
  } catch (const ConfigError& error) {
    throw FormatError(error.what(), "is this a llama2.c v0 model (.bin)?");
  }
  return config;
}

// Where a stack lies in the file.
struct Stack {
  NameRule rule;
  size_t begin = 0, end = 0;  // in bytes
};

// Sizes cannot overflow: ModelConfig::validate has bounded them.
std::vector<Stack> locate_stacks(const Architecture& architecture) {
  const ModelConfig& c = architecture.config();
  std::vector<Stack> stacks;
  size_t end = kHeaderBytes;
  for (const NameRule& rule : kStacks) {
    if (rule.slot == Slot::kHead)  // the rotary tables stand before it, whether it is there or not
      end += static_cast<size_t>(2 * c.context * (c.head_width / 2)) * sizeof(float);
    Stack stack{rule, end, end};
    for (const Part& part : architecture.parts())
      if (part.place.slot == rule.slot)
        stack.end += static_cast<size_t>(part.size()) * sizeof(float);
    stacks.push_back(stack);
    end = stack.end;
  }
  return stacks;
}

void check_file_size(const ModelConfig& c, size_t expected, size_t found, const std::string& what) {
  if (found == expected) return;
  throw FormatError(
      fmt::format("{}: {} bytes, but its header (dim {}, hidden {}, layers {}, heads {}, kv heads "
                  "{}, vocabulary {}, context {}) calls for {}",
                  what, found, c.width, c.ffn_width, c.num_layers, c.num_heads, c.num_kv_heads,
                  c.vocab_size, c.context, expected),
      found < expected ? "the file looks truncated" : "is this a llama2.c v0 model (.bin)?");
}

}  // namespace

Llama2cModel read_llama2c(std::span<const std::byte> bytes, const std::string& what) {
  Llama2cModel model;
  model.config = read_header(bytes, what);
  const Architecture architecture(model.config);
  const std::vector<Stack> stacks = locate_stacks(architecture);
  check_file_size(model.config, stacks.back().end, bytes.size(), what);
  for (const Part& part : architecture.parts()) {
    const auto stack = std::find_if(stacks.begin(), stacks.end(), [&](const Stack& each) {
      return each.rule.slot == part.place.slot;
    });
    TAPER_CHECK(stack != stacks.end());
    std::vector<float> values(static_cast<size_t>(part.size()));
    const size_t layer = static_cast<size_t>(std::max<int64_t>(part.place.layer, 0));
    std::memcpy(values.data(), bytes.data() + stack->begin + layer * sizeof(float) * values.size(),
                sizeof(float) * values.size());
    to_our_layout(architecture, part.place, stack->rule.transform, values,
                  model.tensors.add(weight_name(model.config, part.place), part.shape));
  }
  return model;
}

}  // namespace taper
