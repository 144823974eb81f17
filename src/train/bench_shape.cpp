#include "train/bench_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "core/error.h"
#include "model/checkpoint.h"
#include "text/tokenizer.h"
#include "train/config.h"

namespace taper {

namespace {

BenchShape make(std::string name, int64_t layers, int64_t width, int64_t heads, int64_t ffn_width,
                int64_t vocab, int64_t window) {
  BenchShape shape{std::move(name), {}, 16, window};
  shape.model.vocab_size = vocab;
  shape.model.width = width;
  shape.model.num_layers = layers;
  shape.model.num_heads = shape.model.num_kv_heads = heads;
  shape.model.head_width = width / heads;
  shape.model.ffn_width = ffn_width;
  shape.model.context = window;
  return shape;
}

std::vector<BenchShape> named_shapes() {
  return {make("6l-d256", 6, 256, 8, 768, 4096, 256), make("paper-1m", 8, 64, 16, 171, 10000, 512),
          make("paper-3m", 8, 128, 16, 341, 10000, 512),
          make("paper-9m", 8, 256, 16, 683, 10000, 512),
          make("paper-30m", 8, 512, 16, 1365, 10000, 512)};
}

}  // namespace

double BenchShape::attention_pairs_per_token() const {
  return 0.5 * static_cast<double>(model.num_layers * model.num_heads * window);
}

double BenchShape::flops_per_token() const {
  const auto layer =
      static_cast<double>(model.width * (2 * model.q_width() + 2 * model.kv_width()) +
                          3 * model.width * model.ffn_width);
  const auto layers = static_cast<double>(model.num_layers);
  const double weights = layers * layer + static_cast<double>(model.vocab_size * model.width);
  return 6 * weights + 12 * attention_pairs_per_token() * static_cast<double>(model.head_width);
}

BenchShape find_bench_shape(const std::string& text) {
  for (const BenchShape& shape : named_shapes())
    if (shape.name == text) return shape;
  if (!std::filesystem::exists(text))
    throw ConfigError(fmt::format("no shape and no configuration is called {}", text),
                      fmt::format("shapes: {}", fmt::join(bench_shape_names(), ", ")));
  TrainConfig config;
  train_schema(config).load_file(text);
  resolve(config, text);
  BenchShape shape{text, {}, config.train.batch, 0};
  if (!config.init.from.empty()) {
    shape.model = Checkpoint::open(config.init.from).config();
  } else {
    const int64_t vocab = config.model.vocab_size
                              ? config.model.vocab_size
                              : load_tokenizer(config.data.tokenizer)->vocab_size();
    shape.model = model_config(config, vocab);
    shape.model.validate(text);
  }
  shape.window = window_of(config, shape.model);
  return shape;
}

std::vector<std::string> bench_shape_names() {
  std::vector<std::string> names;
  for (const BenchShape& shape : named_shapes()) names.push_back(shape.name);
  return names;
}

}  // namespace taper
