#include "train/fused/operands.h"

#include <algorithm>

#include "kernels/scaled_weight.h"
#include "train/fused/blocks.h"

namespace taper {

namespace {

// A weight [out, in], and the norm in front of it if there is one.
struct Product {
  FusedLeaf* leaf;
  FusedNorm* norm;
  int64_t out, in;

  int64_t size() const { return out * in; }
};

std::vector<Product> products_of(const ModelConfig& c, FusedParameters& parameters) {
  std::vector<Product> all;
  for (FusedBlock& block : parameters.blocks) {
    all.push_back({&block.qkv, &block.attention_norm, c.q_width() + 2 * c.kv_width(), c.width});
    all.push_back({&block.out, nullptr, c.width, c.q_width()});
    all.push_back({&block.gate_up, &block.ffn_norm, 2 * c.ffn_width, c.width});
    all.push_back({&block.down, nullptr, c.width, c.ffn_width});
  }
  all.push_back({&parameters.head, &parameters.final_norm, c.vocab_size, c.width});
  return all;
}

template <typename T>
void write_operand(const Product& product, bool carries, T* to) {
  std::vector<float> scale;
  if (carries)
    for (int64_t i = 0; i < product.in; ++i)
      scale.push_back(static_cast<float>(product.norm->scale) * product.norm->gamma_t.value[i]);
  parallel_blocks(product.out, 64, [&](int64_t, Range rows) {
    scale_weight<T>(rows, product.in, product.leaf->value, carries ? scale.data() : nullptr, to);
  });
  product.leaf->operand = to;
}

}  // namespace

FusedParameters Operands::make(const FusedParameters& parameters, double gate) {
  FusedParameters made = parameters;
  const std::vector<Product> products = products_of(config_, made);
  const bool floats = activations_ == Activations::kFloat;
  carries_.clear();
  int64_t size = 0;
  for (const Product& p : products) {
    carries_.push_back(p.norm && !p.norm->folded && p.norm->gamma_t.value && gate == 0);
    if (carries_.back() || !floats) size += p.size();
  }
  size *= floats ? static_cast<int64_t>(sizeof(float)) : static_cast<int64_t>(sizeof(bf16));
  if (size > memory_.size()) memory_ = AlignedMemory(size);
  std::byte* to = memory_.data();
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    if (!floats) {
      write_operand(p, carries_[i], reinterpret_cast<bf16*>(to));
      to += p.size() * static_cast<int64_t>(sizeof(bf16));
    } else if (carries_[i]) {
      write_operand(p, true, reinterpret_cast<float*>(to));
      to += p.size() * static_cast<int64_t>(sizeof(float));
    } else {
      p.leaf->operand = p.leaf->value;
    }
    if (carries_[i]) p.norm->folded = true;
  }
  return made;
}

int64_t Operands::gradient_size() const {
  FusedParameters shapes;
  shapes.blocks.resize(static_cast<size_t>(config_.num_layers));
  const std::vector<Product> products = products_of(config_, shapes);
  int64_t size = 0;
  for (size_t i = 0; i < products.size(); ++i)
    if (carries_[i]) size += products[i].size();
  return size;
}

void Operands::redirect(float* gradients, FusedParameters& made) const {
  const std::vector<Product> products = products_of(config_, made);
  for (size_t i = 0; i < products.size(); ++i) {
    if (!carries_[i]) continue;
    products[i].leaf->gradient = gradients;
    gradients += products[i].size();
  }
}

void Operands::backward(std::vector<float*> gradients, const FusedParameters& parameters) const {
  FusedParameters to = parameters;
  const std::vector<Product> products = products_of(config_, to);
  for (size_t i = 0; i < products.size(); ++i) {
    if (!carries_[i]) continue;
    const Product& p = products[i];
    const ScaledWeightGradient args{gradients,
                                    p.leaf->value,
                                    p.norm->gamma_t.value,
                                    static_cast<float>(p.norm->scale),
                                    p.leaf->gradient,
                                    p.norm->gamma_t.gradient,
                                    p.out,
                                    p.in};
    parallel_blocks(p.in, 64,
                    [&](int64_t, Range columns) { scale_weight_backward(args, columns); });
    for (float*& gradient : gradients) gradient += p.size();
  }
}

std::vector<Range> Operands::idle_gradients(const FusedParameters& parameters) const {
  FusedParameters to = parameters;
  const std::vector<Product> products = products_of(config_, to);
  std::vector<Range> idle;
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    if (!carries_[i] || p.leaf->gradient == parameters.embedding.gradient) continue;
    const int64_t begin = p.leaf->gradient - parameters.gradients.data();
    idle.push_back({begin, begin + p.size()});
  }
  std::sort(idle.begin(), idle.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return idle;
}

int64_t Operands::memory_bytes(const ModelConfig& config, Activations activations, bool tapered) {
  if (activations == Activations::kFloat) return gradient_bytes(config, tapered);
  return config.num_parameters() * static_cast<int64_t>(sizeof(bf16));
}

int64_t Operands::gradient_bytes(const ModelConfig& config, bool tapered) {
  return tapered ? config.num_parameters() * static_cast<int64_t>(sizeof(float)) : 0;
}

}  // namespace taper
