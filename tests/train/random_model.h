// Tiny random models for the tests of training: no weight is 0 or 1 by construction, and the same
// ones in float and in double.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "train/data.h"
#include "train/parameters.h"

namespace taper::test {

// Grouped heads with num_heads / num_kv_heads != num_kv_heads, odd hidden width.
inline ModelConfig tiny_config(bool tied = true) {
  ModelConfig config;
  config.vocab_size = 23;
  config.width = 24;
  config.num_layers = 2;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_width = 4;
  config.ffn_width = 29;
  config.context = 16;
  config.tied_head = tied;
  return config;
}

// Matrices of standard deviation `spread`, norm weights in 0.7..1.3; slices from `from` on.
template <typename R>
void randomize(ModelParameters<R>& parameters, uint64_t seed, double spread = 0.3,
               int64_t from = 0) {
  Random random(seed, 99);
  for (const ParameterSlice& slice : parameters.layout().slices()) {
    if (slice.range.begin < from) continue;
    const bool vector = slice.shape.size() == 1;
    for (int64_t i = slice.range.begin; i < slice.range.end; ++i)
      parameters.values()[static_cast<size_t>(i)] =
          static_cast<float>(vector ? 0.7 + 0.6 * random.uniform() : spread * random.normal());
  }
}

// Scales unlike each other, norm by norm.
inline std::vector<double> some_scales(const ModelConfig& config) {
  std::vector<double> scales;
  for (size_t i = 0; i < norm_sites(config).size(); ++i)
    scales.push_back(static_cast<float>(0.6 + 0.07 * static_cast<double>(i)));
  return scales;
}

// A model in mid-taper (an untapered one where nothing is in scope): random weights, gamma~ unlike
// gamma.
template <typename R>
ModelParameters<R> random_model(const ModelConfig& config, TaperScope scope, uint64_t seed = 5,
                                double spread = 0.3, const std::vector<std::string>& folded = {}) {
  ModelParameters<R> model(config, scope, folded);
  randomize(model, seed, spread);
  if (scope == TaperScope::kNone) return model;
  model.begin_taper(some_scales(config));
  randomize(model, seed + 1, spread, model.layout().gamma_t().begin);
  return model;
}

inline std::vector<int64_t> random_ids(int64_t count, int64_t vocab, uint64_t seed) {
  Random random(seed, 7);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(static_cast<uint64_t>(vocab)));
  return ids;
}

inline Batch random_batch(int64_t rows, int64_t window, int64_t vocab, uint64_t seed = 1) {
  return {rows, window, random_ids(rows * window, vocab, seed),
          random_ids(rows * window, vocab, seed + 1)};
}

// ||a - b|| / ||b||; 0 when both are 0.
template <typename A, typename B>
double relative_error(const A& a, const B& b) {
  double squares = 0, error = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double x = a[i], y = b[i];
    squares += y * y;
    error += (x - y) * (x - y);
  }
  return error == 0 ? 0 : std::sqrt(error / squares);
}

template <typename R>
std::vector<double> gradients_of(const ModelParameters<R>& model) {
  return {model.gradients().begin(), model.gradients().end()};
}

template <typename R>
std::span<R> part(std::span<R> all, Range range) {
  return all.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

}  // namespace taper::test
