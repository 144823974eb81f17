#include "train/fused/pass.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/aligned_memory.h"
#include "core/error.h"
#include "kernels/attention_train.h"
#include "kernels/cross_entropy.h"
#include "kernels/rope.h"
#include "kernels/scaled_weight.h"
#include "kernels/swiglu.h"
#include "train/fused/blocks.h"
#include "train/fused/products.h"

namespace taper {

namespace {

// Rows whose gradients of norm parameters are added up together; the parts are then added in order.
constexpr int64_t kNormRows = 256;
// Logits of a chunk of rows. Rows at least half the width: each chunk reads the head's weight twice
// and its gradient once, and writes that.
constexpr int64_t kChunkElements = int64_t{1} << 20;
constexpr int64_t kMinChunkRows = 128;

int64_t chunk_rows(int64_t rows, const ModelConfig& c) {
  const int64_t chunk = std::max({kMinChunkRows, c.width / 2, kChunkElements / c.vocab_size});
  return std::clamp<int64_t>(rows, 1, chunk);
}

// What a pass over one shape of batch keeps and works in.
template <typename T>
struct Buffers {
  struct Layer {
    float *h, *h_mid;        // [N, D] inputs of the two norms
    T* qkv;                  // [N, (H + 2 KV) K]
    T* mixed;                // [N, H K] the attention's output
    float* lse;              // [B, H, T]
    T* gate_up;              // [N, 2 F]
    float *rstd, *rstd_mid;  // [N]
  };

  Buffers(const ModelConfig& c, int64_t batch, int64_t time, int threads, MemoryLayout& layout) {
    const int64_t rows = batch * time, width = c.width;
    const int64_t qkv_width = c.q_width() + 2 * c.kv_width();
    for (int64_t i = 0; i < c.num_layers; ++i) {
      Layer layer;
      layer.h = layout.take<float>(rows * width);
      layer.h_mid = layout.take<float>(rows * width);
      layer.qkv = layout.take<T>(rows * qkv_width);
      layer.mixed = layout.take<T>(rows * c.q_width());
      layer.lse = layout.take<float>(rows * c.num_heads);
      layer.gate_up = layout.take<T>(rows * 2 * c.ffn_width);
      layer.rstd = layout.take<float>(rows);
      layer.rstd_mid = layout.take<float>(rows);
      layers.push_back(layer);
    }
    h_last = layout.take<float>(rows * width);
    rstd_last = layout.take<float>(rows);
    residual_scale = layout.take<float>(rows);
    mask = layout.take<uint8_t>(rows);
    x = layout.take<T>(rows * width);
    dx = layout.take<float>(rows * width);
    dh = layout.take<float>(rows * width);
    dh_operand = std::is_same_v<T, float> ? nullptr : layout.take<T>(rows * width);
    const auto overlay = layout.position();  // never needed at the same time
    hidden = layout.take<T>(rows * c.ffn_width);
    dhidden = layout.take<T>(rows * c.ffn_width);
    dgate_up = layout.take<T>(rows * 2 * c.ffn_width);
    const auto after_ffn = layout.position();
    layout.rewind(overlay);
    dmixed = layout.take<T>(rows * c.q_width());
    dqkv = layout.take<T>(rows * qkv_width);
    const AttentionShape shape{batch, time, c.num_heads, c.num_kv_heads, c.head_width};
    attention_scratch_size =
        std::max(attention_forward_scratch(shape), attention_backward_scratch(shape));
    attention_scratch = layout.take<float>(threads * attention_scratch_size);
    const auto after_attention = layout.position();
    layout.rewind(overlay);
    const int64_t chunk = chunk_rows(rows, c);
    logits = layout.take<float>(chunk * c.vocab_size);
    if constexpr (std::is_same_v<T, float>)
      dlogits = logits;
    else
      dlogits = layout.take<T>(chunk * c.vocab_size);
    losses = layout.take<double>(rows);
    square_norms = layout.take<double>(rows);
    layout.rewind(std::max({after_ffn, after_attention, layout.position()}));
    partial = layout.take<float>(2 * num_blocks(rows, kNormRows) * width);
  }

  std::vector<Layer> layers;
  float* h_last;
  float *rstd_last, *residual_scale;
  uint8_t* mask;   // [N] rows that count in the statistics
  T* x;            // [N, D] an operand of products
  float *dx, *dh;  // [N, D]
  T* dh_operand;   // [N, D]
  T *hidden, *dhidden, *dgate_up;
  T *dmixed, *dqkv;
  float* attention_scratch;
  int64_t attention_scratch_size;
  float* logits;  // [chunk, V]
  T* dlogits;
  double *losses, *square_norms;  // [N]
  float* partial;
};

template <typename T>
class PassOf : public Pass {
 public:
  explicit PassOf(const ModelConfig& config)
      : config_(config), rope_(config.context, config.head_width, config.rope_theta) {}

  PassSums run(const FusedParameters& parameters, const FusedBatch& batch,
               const PassOptions& options) override {
    prepare(batch);
    options_ = &options;
    parameters_ = &parameters;
    const auto blocks = static_cast<size_t>(config_.num_layers);
    embed(batch);
    for (size_t i = 0; i < blocks; ++i)
      block_forward(parameters.blocks[i], buffers_->layers[i],
                    i + 1 < blocks ? buffers_->layers[i + 1].h : buffers_->h_last);
    PassSums sums;
    measure_scale(sums);
    head(batch, sums);
    if (!options.backward) return sums;
    if (options.anchor_target) anchor_backward_rows();
    for (size_t i = blocks; i-- > 0;) block_backward(parameters.blocks[i], buffers_->layers[i]);
    embed_backward(batch);
    return sums;
  }

 private:
  PassTimer timer(PassOp op, bool backward) const { return {profile, op, backward}; }

  void prepare(const FusedBatch& batch) {
    const int threads = omp_get_max_threads();
    if (batch.batch != batch_ || batch.time != time_ || threads != threads_) {
      MemoryLayout measure;
      Buffers<T>(config_, batch.batch, batch.time, threads, measure);
      if (measure.bytes() > memory_.size()) memory_ = AlignedMemory(measure.bytes());
      MemoryLayout layout(memory_.data());
      buffers_ = std::make_unique<Buffers<T>>(config_, batch.batch, batch.time, threads, layout);
      batch_ = batch.batch;
      time_ = batch.time;
      threads_ = threads;
    }
    rows_ = batch_ * time_;
  }

  const uint8_t* mask() const { return options_->skip_first_position ? buffers_->mask : nullptr; }

  void embed(const FusedBatch& batch) {
    const PassTimer time = timer(PassOp::kEmbedding, false);
    const float* table = parameters_->embedding.value;
    float* h = config_.num_layers > 0 ? buffers_->layers[0].h : buffers_->h_last;
    parallel_blocks(rows_, kNormRows, [&](int64_t, Range rows) {
      for (int64_t n = rows.begin; n < rows.end; ++n)
        std::copy_n(table + batch.ids[n] * config_.width, config_.width, h + n * config_.width);
    });
    if (options_->skip_first_position)
      for (int64_t n = 0; n < rows_; ++n) buffers_->mask[n] = n % batch.time != 0;
  }

  // Each thread owns rows of the table and walks over all ids, so that additions into a row keep
  // the order of the ids.
  void embed_backward(const FusedBatch& batch) {
    const PassTimer time = timer(PassOp::kEmbedding, true);
    const int64_t width = config_.width;
    float* gradient = parameters_->embedding.gradient;
    const float* dh = buffers_->dh;
#pragma omp parallel
    {
      const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
      const int64_t begin = config_.vocab_size * part / parts;
      const int64_t end = config_.vocab_size * (part + 1) / parts;
      for (int64_t n = 0; n < rows_; ++n)
        if (batch.ids[n] >= begin && batch.ids[n] < end)
          add_row(dh + n * width, width, gradient + batch.ids[n] * width);
    }
  }

  TaperNormArgs<float> norm_args(const FusedNorm& norm) const {
    const bool tapered = norm.gamma_t.value;
    return {norm.gamma.value,
            norm.gamma_t.value,
            static_cast<float>(norm.scale),
            tapered ? static_cast<float>(options_->gate) : 1.0f,
            static_cast<float>(config_.norm_eps),
            config_.width};
  }

  static const T* operand(const FusedLeaf& leaf) { return static_cast<const T*>(leaf.operand); }

  void norm_forward(const FusedNorm& norm, const float* h, T* y, float* rstd) {
    const TaperNormArgs<float> args = norm_args(norm);
    std::vector<TaperNormSums> parts(norm.sums ? static_cast<size_t>(num_blocks(rows_, kNormRows))
                                               : 0);
    parallel_blocks(rows_, kNormRows, [&](int64_t i, Range rows) {
      taper_rms_norm_forward<float>(args, rows, h, y, rstd,
                                    norm.sums ? &parts[static_cast<size_t>(i)] : nullptr, mask());
    });
    for (const TaperNormSums& part : parts) {
      norm.sums->numerator += part.numerator;
      norm.sums->denominator += part.denominator;
      norm.sums->scale += part.scale;
      norm.sums->rows += part.rows;
    }
  }

  // dh = residual + the gradient through the norm; x = N(h) on the way.
  void norm_backward(const FusedNorm& norm, const float* h, const float* dx, const float* rstd,
                     const float* residual, float* dh, T* x) {
    const TaperNormArgs<float> args = norm_args(norm);
    const int64_t width = config_.width, blocks = num_blocks(rows_, kNormRows);
    float* dgamma = buffers_->partial;
    float* dgamma_t = dgamma + blocks * width;
    parallel_blocks(rows_, kNormRows, [&](int64_t i, Range rows) {
      std::memset(dgamma + i * width, 0, sizeof(float) * static_cast<size_t>(width));
      std::memset(dgamma_t + i * width, 0, sizeof(float) * static_cast<size_t>(width));
      taper_rms_norm_backward<float>(args, rows, h, dx, rstd, residual, dh, dgamma + i * width,
                                     dgamma_t + i * width, x);
    });
    for (int64_t i = 0; i < blocks; ++i) {
      add_row(dgamma + i * width, width, norm.gamma.gradient);
      if (norm.gamma_t.gradient) add_row(dgamma_t + i * width, width, norm.gamma_t.gradient);
    }
  }

  // Rows [N, D] as products take them; in bf16, at `to`.
  const T* as_operand(const float* rows, [[maybe_unused]] T* to) {
    if constexpr (std::is_same_v<T, float>) {
      return rows;
    } else {
      const int64_t width = config_.width;
      parallel_blocks(rows_, kNormRows, [&](int64_t, Range range) {
        convert(rows + range.begin * width, (range.end - range.begin) * width,
                to + range.begin * width);
      });
      return to;
    }
  }

  // N(h), for a product.
  const T* normed(const FusedNorm& norm, const float* h, float* rstd) {
    const PassTimer time = timer(PassOp::kNorm, false);
    if (norm.folded) return as_operand(h, buffers_->x);
    norm_forward(norm, h, buffers_->x, rstd);
    return buffers_->x;
  }

  // y = N(h) weight^T
  void normed_product(const FusedNorm& norm, const FusedLeaf& weight, int64_t out, const float* h,
                      float* rstd, T* y) {
    const T* x = normed(norm, h, rstd);
    const PassTimer time = timer(PassOp::kProducts, false);
    products_.forward<T>({rows_, config_.width, out}, x, operand(weight), y);
  }

  // dh += the gradient through both; parameters' gradients on the way.
  void normed_product_backward(const FusedNorm& norm, const FusedLeaf& weight, int64_t out,
                               const float* h, const float* rstd, const T* dy, float* dh) {
    const LinearShape shape{rows_, config_.width, out};
    {
      const PassTimer time = timer(PassOp::kProducts, true);
      products_.input_gradient<T>(shape, dy, operand(weight), norm.folded ? dh : buffers_->dx,
                                  /*accumulate=*/norm.folded);
    }
    const T* x = buffers_->x;
    {
      const PassTimer time = timer(PassOp::kNorm, true);
      if (norm.folded)
        x = as_operand(h, buffers_->x);
      else
        norm_backward(norm, h, buffers_->dx, rstd, dh, dh, buffers_->x);
    }
    const PassTimer time = timer(PassOp::kProducts, true);
    products_.weight_gradient<T>(shape, dy, x, weight.gradient, true);
  }

  void block_forward(const FusedBlock& block, typename Buffers<T>::Layer& layer, float* next) {
    const int64_t width = config_.width, q = config_.q_width(), ffn = config_.ffn_width;
    const int64_t qkv = q + 2 * config_.kv_width();
    normed_product(block.attention_norm, block.qkv, qkv, layer.h, layer.rstd, layer.qkv);
    {
      const PassTimer time = timer(PassOp::kAttention, false);
      attention([&](const AttentionShape& shape, Range groups, float* scratch) {
        attention_forward<T>(shape, groups, layer.qkv, rope_.cosines(0), rope_.sines(0),
                             layer.mixed, layer.lse, scratch);
      });
    }
    {
      const PassTimer time = timer(PassOp::kProducts, false);
      products_.forward<T>({rows_, q, width}, layer.mixed, operand(block.out), layer.h_mid,
                           layer.h);
    }
    normed_product(block.ffn_norm, block.gate_up, 2 * ffn, layer.h_mid, layer.rstd_mid,
                   layer.gate_up);
    {
      const PassTimer time = timer(PassOp::kSwiglu, false);
      parallel_blocks(rows_, 32, [&](int64_t, Range rows) {
        swiglu_forward<T>(rows, ffn, layer.gate_up, buffers_->hidden);
      });
    }
    const PassTimer time = timer(PassOp::kProducts, false);
    products_.forward<T>({rows_, ffn, width}, buffers_->hidden, operand(block.down), next,
                         layer.h_mid);
  }

  // buffers_->dh: from the gradient of the block's output to that of its input.
  void block_backward(const FusedBlock& block, typename Buffers<T>::Layer& layer) {
    const int64_t width = config_.width, q = config_.q_width(), ffn = config_.ffn_width;
    const int64_t qkv = q + 2 * config_.kv_width();
    Buffers<T>& b = *buffers_;
    const T* dh;
    {
      const PassTimer time = timer(PassOp::kProducts, true);
      dh = as_operand(b.dh, b.dh_operand);
      products_.input_gradient<T>({rows_, ffn, width}, dh, operand(block.down), b.dhidden);
    }
    {
      const PassTimer time = timer(PassOp::kSwiglu, true);
      parallel_blocks(rows_, 32, [&](int64_t, Range rows) {
        swiglu_backward<T>(rows, ffn, layer.gate_up, b.dhidden, b.dgate_up, b.hidden);
      });
    }
    {
      const PassTimer time = timer(PassOp::kProducts, true);
      products_.weight_gradient<T>({rows_, ffn, width}, dh, b.hidden, block.down.gradient, true);
    }
    normed_product_backward(block.ffn_norm, block.gate_up, 2 * ffn, layer.h_mid, layer.rstd_mid,
                            b.dgate_up, b.dh);
    {
      const PassTimer time = timer(PassOp::kProducts, true);
      dh = as_operand(b.dh, b.dh_operand);
      products_.input_gradient<T>({rows_, q, width}, dh, operand(block.out), b.dmixed);
      products_.weight_gradient<T>({rows_, q, width}, dh, layer.mixed, block.out.gradient, true);
    }
    {
      const PassTimer time = timer(PassOp::kAttention, true);
      attention([&](const AttentionShape& shape, Range groups, float* scratch) {
        attention_backward<T>(shape, groups, layer.qkv, rope_.cosines(0), rope_.sines(0),
                              layer.mixed, layer.lse, b.dmixed, b.dqkv, scratch);
      });
    }
    normed_product_backward(block.attention_norm, block.qkv, qkv, layer.h, layer.rstd, b.dqkv,
                            b.dh);
  }

  // body(shape, groups, scratch) over all groups of heads, a range a thread.
  template <class Body>
  void attention(const Body& body) {
    const AttentionShape shape{batch_, time_, config_.num_heads, config_.num_kv_heads,
                               config_.head_width};
#pragma omp parallel
    {
      const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
      const Range groups{shape.groups() * part / parts, shape.groups() * (part + 1) / parts};
      if (groups.begin < groups.end)
        body(shape, groups, buffers_->attention_scratch + part * buffers_->attention_scratch_size);
    }
  }

  void measure_scale(PassSums& sums) {
    const PassTimer time = timer(PassOp::kOther, false);
    float* r = buffers_->residual_scale;
    parallel_blocks(rows_, kNormRows, [&](int64_t, Range rows) {
      residual_scale_rows<float>(rows, config_.width, static_cast<float>(config_.norm_eps),
                                 buffers_->h_last, r);
    });
    const double target = options_->anchor_target.value_or(0);
    for (int64_t n = 0; n < rows_; ++n) {
      if (mask() && !mask()[n]) continue;
      sums.scale += r[n];
      if (options_->anchor_target) sums.anchor += (r[n] - target) * (r[n] - target);
      ++sums.scale_count;
    }
  }

  void anchor_backward_rows() {
    const PassTimer time = timer(PassOp::kOther, true);
    parallel_blocks(rows_, kNormRows, [&](int64_t, Range rows) {
      anchor_backward<float>(rows, config_.width, static_cast<float>(*options_->anchor_target),
                             static_cast<float>(options_->anchor_weight), buffers_->h_last,
                             buffers_->residual_scale, mask(), buffers_->dh);
    });
  }

  // Final norm, head and cross-entropy, a chunk of rows at a time; dh when going backward.
  void head(const FusedBatch& batch, PassSums& sums) {
    Buffers<T>& b = *buffers_;
    const FusedNorm& norm = parameters_->final_norm;
    const FusedLeaf& weight = parameters_->head;
    const int64_t width = config_.width, vocab = config_.vocab_size;
    const T* x = normed(norm, b.h_last, b.rstd_last);
    const PassTimer time = timer(PassOp::kHead, false);
    float* dx = norm.folded ? b.dh : b.dx;
    const int64_t chunk = chunk_rows(rows_, config_);
    for (int64_t begin = 0; begin < rows_; begin += chunk) {
      const int64_t count = std::min(chunk, rows_ - begin);
      const LinearShape shape{count, width, vocab};
      products_.forward<T>(shape, x + begin * width, operand(weight), b.logits);
      const CrossEntropyArgs<T> args{vocab,
                                     batch.targets + begin,
                                     b.logits,
                                     options_->backward ? b.dlogits : nullptr,
                                     static_cast<float>(options_->loss_weight),
                                     b.losses + begin,
                                     b.square_norms + begin};
      parallel_blocks(count, 4, [&](int64_t, Range rows) { cross_entropy_rows<T>(args, rows); });
      if (!options_->backward) continue;
      products_.input_gradient<T>(shape, b.dlogits, operand(weight), dx + begin * width);
      products_.weight_gradient<T>(shape, b.dlogits, x + begin * width, weight.gradient, true);
    }
    for (int64_t n = 0; n < rows_; ++n) {
      if (batch.targets[n] < 0) continue;
      sums.loss += b.losses[n];
      sums.logit_norm += std::sqrt(b.square_norms[n]);
      ++sums.count;
    }
    if (!options_->backward) return;
    if (!norm.folded)
      norm_backward(norm, b.h_last, b.dx, b.rstd_last, nullptr, b.dh, static_cast<T*>(nullptr));
  }

  ModelConfig config_;
  RopeTable rope_;
  Products products_;
  AlignedMemory memory_;
  std::unique_ptr<Buffers<T>> buffers_;
  int64_t batch_ = 0, time_ = 0, rows_ = 0;
  int threads_ = 0;
  const PassOptions* options_ = nullptr;
  const FusedParameters* parameters_ = nullptr;
};

}  // namespace

std::unique_ptr<Pass> make_pass(const ModelConfig& config, Activations activations) {
  if (activations == Activations::kFloat) return std::make_unique<PassOf<float>>(config);
  return std::make_unique<PassOf<bf16>>(config);
}

int64_t pass_memory_bytes(const ModelConfig& config, Activations activations, int64_t batch,
                          int64_t time, int threads) {
  MemoryLayout layout;
  if (activations == Activations::kFloat)
    Buffers<float>(config, batch, time, threads, layout);
  else
    Buffers<bf16>(config, batch, time, threads, layout);
  return layout.bytes();
}

}  // namespace taper
