#include "model/llama2c.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "core/error.h"

namespace taper {
namespace {

constexpr size_t kHeaderFields = 7;
constexpr size_t kHeaderBytes = kHeaderFields * sizeof(int32_t);

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

// A product of sizes of the header, and sums of them, that cannot overflow unnoticed.
class Size {
 public:
  Size(std::initializer_list<int64_t> factors, const std::string& what) : what_(what) {
    for (const int64_t factor : factors)
      if (__builtin_mul_overflow(value_, factor, &value_)) overflow();
  }
  void add(const Size& other) {
    if (__builtin_add_overflow(value_, other.value_, &value_)) overflow();
  }
  int64_t value() const { return value_; }

 private:
  [[noreturn]] void overflow() const {
    throw FormatError(what_ + ": the sizes in the header overflow 64 bits");
  }
  const std::string& what_;
  int64_t value_ = 1;
};

void check_file_size(const ModelConfig& c, size_t found, const std::string& what) {
  Size bytes({static_cast<int64_t>(kHeaderBytes)}, what);
  const auto floats = [&](std::initializer_list<int64_t> factors) {
    Size size(factors, what);
    if (size.value() > INT64_MAX / int64_t{sizeof(float)})
      throw FormatError(what + ": the sizes in the header overflow 64 bits");
    bytes.add(Size({size.value(), int64_t{sizeof(float)}}, what));
  };
  floats({c.vocab_size, c.width});
  floats({2, c.num_layers, c.width});
  floats({2, c.num_layers, c.q_width(), c.width});
  floats({2, c.num_layers, c.kv_width(), c.width});
  floats({3, c.num_layers, c.ffn_width, c.width});
  floats({c.width});
  floats({2, c.context, c.head_width / 2});
  if (!c.tied_head) floats({c.vocab_size, c.width});
  if (static_cast<uint64_t>(bytes.value()) != found) {
    throw FormatError(
        fmt::format(
            "{}: {} bytes, but its header (dim {}, hidden {}, layers {}, heads {}, kv heads "
            "{}, vocabulary {}, context {}) calls for {}",
            what, found, c.width, c.ffn_width, c.num_layers, c.num_heads, c.num_kv_heads,
            c.vocab_size, c.context, bytes.value()),
        found < static_cast<uint64_t>(bytes.value()) ? "the file looks truncated"
                                                     : "is this a llama2.c v0 model (.bin)?");
  }
}

// Reads the tensors in turn; check_file_size has made sure that they are there.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> take(int64_t floats) {
    const auto part = bytes_.subspan(offset_, static_cast<size_t>(floats) * sizeof(float));
    offset_ += part.size();
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = kHeaderBytes;
};

void copy(std::span<const std::byte> source, std::span<float> target) {
  TAPER_CHECK(source.size() == target.size_bytes());
  std::memcpy(target.data(), source.data(), source.size());
}

// Rows 2i and 2i+1 of a head become rows i and i + K/2.
void copy_rotary(std::span<const std::byte> source, std::span<float> target, int64_t num_heads,
                 int64_t head_width, int64_t width) {
  TAPER_CHECK(source.size() == target.size_bytes());
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  for (int64_t head = 0; head < num_heads; ++head) {
    for (int64_t row = 0; row < head_width; ++row) {
      const int64_t to = head * head_width + row / 2 + (row % 2) * (head_width / 2);
      const int64_t from = head * head_width + row;
      std::memcpy(target.data() + to * width, source.data() + static_cast<size_t>(from) * row_bytes,
                  row_bytes);
    }
  }
}

}  // namespace

Llama2cModel read_llama2c(std::span<const std::byte> bytes, const std::string& what) {
  Llama2cModel model;
  const ModelConfig& c = model.config = read_header(bytes, what);
  check_file_size(c, bytes.size(), what);
  Cursor cursor(bytes);
  const auto embedding = cursor.take(c.vocab_size * c.width);
  const auto attention_norms = cursor.take(c.num_layers * c.width);
  const auto q = cursor.take(c.num_layers * c.q_width() * c.width);
  const auto k = cursor.take(c.num_layers * c.kv_width() * c.width);
  const auto v = cursor.take(c.num_layers * c.kv_width() * c.width);
  const auto o = cursor.take(c.num_layers * c.width * c.q_width());
  const auto ffn_norms = cursor.take(c.num_layers * c.width);
  const auto gate = cursor.take(c.num_layers * c.ffn_width * c.width);
  const auto down = cursor.take(c.num_layers * c.width * c.ffn_width);
  const auto up = cursor.take(c.num_layers * c.ffn_width * c.width);
  const auto final_norm = cursor.take(c.width);
  cursor.take(2 * c.context * (c.head_width / 2));

  TensorSet& tensors = model.tensors;
  copy(embedding, tensors.add("model.embed_tokens.weight", {c.vocab_size, c.width}));
  for (int64_t layer = 0; layer < c.num_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto part = [&](std::span<const std::byte> stack) {
      const size_t size = stack.size() / static_cast<size_t>(c.num_layers);
      return stack.subspan(static_cast<size_t>(layer) * size, size);
    };
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      return tensors.add(prefix + name, std::move(shape));
    };
    copy(part(attention_norms), add("input_layernorm.weight", {c.width}));
    copy_rotary(part(q), add("self_attn.q_proj.weight", {c.q_width(), c.width}), c.num_heads,
                c.head_width, c.width);
    copy_rotary(part(k), add("self_attn.k_proj.weight", {c.kv_width(), c.width}), c.num_kv_heads,
                c.head_width, c.width);
    copy(part(v), add("self_attn.v_proj.weight", {c.kv_width(), c.width}));
    copy(part(o), add("self_attn.o_proj.weight", {c.width, c.q_width()}));
    copy(part(ffn_norms), add("post_attention_layernorm.weight", {c.width}));
    copy(part(gate), add("mlp.gate_proj.weight", {c.ffn_width, c.width}));
    copy(part(up), add("mlp.up_proj.weight", {c.ffn_width, c.width}));
    copy(part(down), add("mlp.down_proj.weight", {c.width, c.ffn_width}));
  }
  copy(final_norm, tensors.add("model.norm.weight", {c.width}));
  if (!c.tied_head) {
    copy(cursor.take(c.vocab_size * c.width),
         tensors.add("lm_head.weight", {c.vocab_size, c.width}));
  }
  return model;
}

}  // namespace taper
