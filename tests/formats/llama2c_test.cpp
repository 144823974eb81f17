#include "formats/llama2c.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/file.h"
#include "model/checkpoint.h"
#include "model/error_matchers.h"
#include "model/random_checkpoint.h"
#include "shared_data.h"

namespace taper {
namespace {

// A llama2.c file written float by float, as the format says.
struct File {
  ModelConfig config;
  std::vector<std::byte> bytes;

  template <typename T>
  void put(T value) {
    const auto part = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
};

// Every float is its own index in the file, so that each weight shows where it came from.
File numbered_file(const ModelConfig& config) {
  File file{config, {}};
  const int64_t vocab = config.tied_head ? config.vocab_size : -config.vocab_size;
  for (const int64_t field : {config.width, config.ffn_width, config.num_layers, config.num_heads,
                              config.num_kv_heads, vocab, config.context})
    file.put(static_cast<int32_t>(field));
  const int64_t floats = Architecture(config).num_parameters() + config.context * config.head_width;
  for (int64_t i = 0; i < floats; ++i) file.put(static_cast<float>(i));
  return file;
}

ModelConfig grouped_config(bool tied) {
  ModelConfig config;
  config.num_heads = 6;  // 6 / 2 != 2
  config.num_kv_heads = 2;
  config.head_width = 4;
  config.width = 24;
  config.ffn_width = 13;
  config.num_layers = 3;
  config.vocab_size = 17;
  config.context = 9;
  config.tied_head = tied;
  return config;
}

// Where the row `row` of a rotary weight lies in its llama2.c block: pair i of a head is (2i, 2i +
// 1).
int64_t source_row(int64_t row, int64_t head_width) {
  const int64_t head = row / head_width;
  const int64_t in_head = row % head_width;
  const int64_t half = head_width / 2;
  return head * head_width + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

class Llama2c : public testing::TestWithParam<bool> {};

TEST_P(Llama2c, EveryWeight_ComesFromItsPlaceInTheFile) {
  const ModelConfig c = grouped_config(GetParam());
  const File file = numbered_file(c);
  const Llama2cModel model = read_llama2c(file.bytes, "m.bin");
  check_tensors(model.config, {}, model.tensors.views(), "m.bin");
  EXPECT_EQ(model.config.tied_head, GetParam());
  EXPECT_EQ(model.config.num_kv_heads, 2);
  EXPECT_EQ(model.config.norm_eps, 1e-5);

  int64_t offset = 0;  // in floats, of the next block
  const auto check = [&](const std::string& name, int64_t block, int64_t rows, int64_t columns,
                         bool rotary) {
    const std::vector<float> values = to_float32(model.tensors.at(name));
    ASSERT_EQ(static_cast<int64_t>(values.size()), rows * columns) << name;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t from = rotary ? source_row(row, c.head_width) : row;
      for (int64_t column = 0; column < columns; ++column)
        ASSERT_EQ(values[static_cast<size_t>(row * columns + column)],
                  static_cast<float>(offset + block * rows * columns + from * columns + column))
            << name << " row " << row << " column " << column;
    }
  };
  const auto stack = [&](const char* name, int64_t rows, int64_t columns, bool rotary = false) {
    for (int64_t layer = 0; layer < c.num_layers; ++layer) {
      check("model.layers." + std::to_string(layer) + "." + name, layer, rows, columns, rotary);
    }
    offset += c.num_layers * rows * columns;
  };
  check("model.embed_tokens.weight", 0, c.vocab_size, c.width, false);
  offset += c.vocab_size * c.width;
  stack("input_layernorm.weight", 1, c.width);
  stack("self_attn.q_proj.weight", c.q_width(), c.width, true);
  stack("self_attn.k_proj.weight", c.kv_width(), c.width, true);
  stack("self_attn.v_proj.weight", c.kv_width(), c.width);
  stack("self_attn.o_proj.weight", c.width, c.q_width());
  stack("post_attention_layernorm.weight", 1, c.width);
  stack("mlp.gate_proj.weight", c.ffn_width, c.width);
  stack("mlp.down_proj.weight", c.width, c.ffn_width);
  stack("mlp.up_proj.weight", c.ffn_width, c.width);
  check("model.norm.weight", 0, 1, c.width, false);
  offset += c.width + c.context * c.head_width;  // the rotary tables
  if (!c.tied_head) check("lm_head.weight", 0, c.vocab_size, c.width, false);
}

INSTANTIATE_TEST_SUITE_P(TiedAndUntied, Llama2c, testing::Bool());

TEST(Llama2c, FileOfAnotherLength_IsRefused) {
  File file = numbered_file(grouped_config(true));
  const std::vector<std::byte> whole = file.bytes;
  for (const size_t size : {size_t{0}, size_t{27}, size_t{28}, whole.size() - 1}) {
    EXPECT_ERROR(read_llama2c(std::span(whole).first(size), "m.bin"), FormatError, "m.bin",
                 "bytes");
  }
  file.put(1.0f);
  EXPECT_ERROR(read_llama2c(file.bytes, "m.bin"), FormatError, "m.bin", "calls for");
}

TEST(Llama2c, ImplausibleHeaders_AreRefusedBeforeAnythingIsAllocated) {
  const File good = numbered_file(grouped_config(true));
  for (size_t field = 0; field < 7; ++field) {
    for (const int32_t value : {0, -1, INT32_MIN, INT32_MAX, 1 << 23}) {
      std::vector<std::byte> bytes = good.bytes;
      std::memcpy(bytes.data() + 4 * field, &value, sizeof(value));
      EXPECT_THROW(read_llama2c(bytes, "m.bin"), FormatError) << field << " " << value;
    }
  }
  const std::vector<std::byte> noise(good.bytes.size(), std::byte{0x6b});
  EXPECT_THROW(read_llama2c(noise, "m.bin"), FormatError);
}

TEST(Llama2c, Stories260K_HasTheSizesOfItsDescription) {
  const auto data = shared_data();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const MappedFile file(*data / "stories260K" / "stories260K.bin");
  const Llama2cModel model = read_llama2c(file.bytes(), file.path().string());
  EXPECT_EQ(model.config.width, 64);
  EXPECT_EQ(model.config.ffn_width, 172);
  EXPECT_EQ(model.config.num_layers, 5);
  EXPECT_EQ(model.config.num_heads, 8);
  EXPECT_EQ(model.config.num_kv_heads, 4);
  EXPECT_EQ(model.config.vocab_size, 512);
  EXPECT_EQ(model.config.context, 512);
  EXPECT_TRUE(model.config.tied_head);
  for (const TensorView& tensor : model.tensors.views())
    for (const float value : to_float32(tensor)) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
}

}  // namespace
}  // namespace taper
