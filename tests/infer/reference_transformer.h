// A Transformer in double precision, written straight from the formulas (method.md, section 1) and
// from nothing of the engine's: the specification that the engine is compared with. One sequence,
// no cache, no cleverness.
//   T time, D width, H heads, K head width, F hidden, V vocabulary
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/checkpoint.h"

namespace taper::test {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class ReferenceTransformer {
 public:
  ReferenceTransformer(const Checkpoint& checkpoint, double gate)
      : checkpoint_(checkpoint), config_(checkpoint.config()), gate_(gate) {}

  // Logits [T, V].
  Rows logits(const std::vector<int32_t>& ids) const {
    const Matrix embedding = matrix("model.embed_tokens.weight");
    Rows h;
    for (const int32_t id : ids) h.push_back(embedding.row(id));
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(h, attention(prefix + "self_attn.", norm(prefix + "input_layernorm", h)));
      add(h, ffn(prefix + "mlp.", norm(prefix + "post_attention_layernorm", h)));
    }
    const Matrix head = config_.tied_head ? embedding : matrix("lm_head.weight");
    return head.apply(norm("model.norm", h));
  }

  double loss(const std::vector<int32_t>& ids) const {
    const Rows z = logits({ids.begin(), ids.end() - 1});
    double sum = 0;
    for (size_t t = 0; t < z.size(); ++t) {
      double total = 0;
      for (const double value : z[t]) total += std::exp(value);
      sum += std::log(total) - z[t][static_cast<size_t>(ids[t + 1])];
    }
    return sum / static_cast<double>(z.size());
  }

 private:
  struct Matrix {  // (out, in)
    std::vector<float> values;
    int64_t in = 0;

    Row row(int64_t index) const {
      return {values.begin() + index * in, values.begin() + (index + 1) * in};
    }
    Rows apply(const Rows& x) const {
      const int64_t out = std::ssize(values) / in;
      Rows y;
      for (const Row& from : x) {
        Row& to = y.emplace_back(static_cast<size_t>(out));
        for (int64_t n = 0; n < out; ++n) {
          const Row weights = row(n);
          for (size_t k = 0; k < weights.size(); ++k)
            to[static_cast<size_t>(n)] += from[k] * weights[k];
        }
      }
      return y;
    }
  };

  Matrix matrix(const std::string& name) const {
    const TensorView& tensor = checkpoint_.tensors().at(name);
    return {to_float32(tensor), tensor.shape.back()};
  }

  static void add(Rows& h, const Rows& update) {
    for (size_t t = 0; t < h.size(); ++t)
      for (size_t i = 0; i < h[t].size(); ++i) h[t][i] += update[t][i];
  }

  // y = g * h / r * gamma + (1 - g) * c * h * gamma~; a plain norm has g = 1, a folded one does
  // nothing.
  Rows norm(const std::string& name, const Rows& h) const {
    const TensorSet& tensors = checkpoint_.tensors();
    if (tensors.find(name + ".weight") == nullptr) return h;
    const bool tapered = tensors.find(name + ".taper_weight") != nullptr;
    const double g = tapered ? gate_ : 1;
    const std::vector<float> gamma = to_float32(tensors.at(name + ".weight"));
    const std::vector<float> gamma_t =
        tapered ? to_float32(tensors.at(name + ".taper_weight")) : std::vector<float>(gamma.size());
    const double c = tapered ? to_float32(tensors.at(name + ".taper_scale"))[0] : 0;
    Rows y = h;
    for (Row& row : y) {
      double square = 0;
      for (const double value : row) square += value * value;
      const double r = std::sqrt(square / static_cast<double>(row.size()) + config_.norm_eps);
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = g * row[i] / r * gamma[i] + (1 - g) * c * row[i] * gamma_t[i];
    }
    return y;
  }

  // Rotates channel pairs (i, i + K/2) of every head by position * theta^(-2i/K).
  void rotate(Rows& x) const {
    const auto width = static_cast<size_t>(config_.head_width);
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t head = 0; head < x[t].size(); head += width) {
        for (size_t i = 0; i < width / 2; ++i) {
          const double angle = static_cast<double>(t) *
                               std::pow(config_.rope_theta,
                                        -2.0 * static_cast<double>(i) / static_cast<double>(width));
          const double a = x[t][head + i], b = x[t][head + i + width / 2];
          x[t][head + i] = a * std::cos(angle) - b * std::sin(angle);
          x[t][head + i + width / 2] = a * std::sin(angle) + b * std::cos(angle);
        }
      }
    }
  }

  Rows attention(const std::string& prefix, const Rows& x) const {
    Rows q = matrix(prefix + "q_proj.weight").apply(x);
    Rows k = matrix(prefix + "k_proj.weight").apply(x);
    const Rows v = matrix(prefix + "v_proj.weight").apply(x);
    rotate(q);
    rotate(k);
    const auto width = static_cast<size_t>(config_.head_width);
    Rows mixed(x.size(), Row(static_cast<size_t>(config_.q_width())));
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t head = 0; head < static_cast<size_t>(config_.num_heads); ++head) {
        const size_t group = static_cast<size_t>(config_.num_heads / config_.num_kv_heads);
        const size_t from = head * width, kv = head / group * width;
        Row p(t + 1);
        double sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t i = 0; i < width; ++i) score += q[t][from + i] * k[s][kv + i];
          sum += p[s] = std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (size_t s = 0; s <= t; ++s)
          for (size_t i = 0; i < width; ++i) mixed[t][from + i] += p[s] / sum * v[s][kv + i];
      }
    }
    return matrix(prefix + "o_proj.weight").apply(mixed);
  }

  Rows ffn(const std::string& prefix, const Rows& x) const {
    Rows gate = matrix(prefix + "gate_proj.weight").apply(x);
    const Rows up = matrix(prefix + "up_proj.weight").apply(x);
    for (size_t t = 0; t < gate.size(); ++t)
      for (size_t i = 0; i < gate[t].size(); ++i)
        gate[t][i] = gate[t][i] / (1 + std::exp(-gate[t][i])) * up[t][i];
    return matrix(prefix + "down_proj.weight").apply(gate);
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  double gate_;
};

}  // namespace taper::test
