#include "train/pass/lane.h"

#include <algorithm>
#include <type_traits>

#include "core/aligned_memory.h"
#include "core/error.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/head.h"
#include "ops/linear.h"
#include "ops/mlp.h"
#include "ops/norm.h"
#include "train/pass/buffers.h"

namespace taper {

namespace {

template <typename T>
class LaneOf final : public Lane<Real<T>> {
  using R = Real<T>;

 public:
  LaneOf(const ModelConfig& config, const OpContext& context)
      : Lane<R>(context), config_(config), products_(context.team) {}

  PassSums run(const ModelWeights<R>& weights, const RopeTable<R>& rope, const BatchView& batch,
               const PassOptions& options) override {
    prepare(batch);
    options_ = &options;
    rope_ = &rope;
    LaneBuffers<T>& b = *buffers_;
    const auto depth = b.blocks.size();
    embedding_forward(context_, rows_, config_.width, batch.ids, weights.embedding, input_of(0));
    if (options.skip_first_position)
      for (int64_t n = 0; n < rows_; ++n) b.mask[n] = n % time_ != 0;
    for (size_t i = 0; i < depth; ++i)
      block_forward(weights.blocks[i], b.blocks[i], input_of(i + 1));
    PassSums sums;
    measure_scale(sums);
    head(weights, batch, sums);
    if (!options.backward) return sums;
    if (options.anchor_target)
      anchor_backward<R>(context_, rows_, config_.width, static_cast<R>(*options.anchor_target),
                         static_cast<R>(options.anchor_weight), b.h_last, b.scale, mask(), b.dh);
    for (size_t i = depth; i-- > 0;) block_backward(weights.blocks[i], b.blocks[i]);
    embedding_backward(context_, rows_, config_.width, config_.vocab_size, batch.ids, b.dh,
                       weights.dembedding);
    return sums;
  }

 private:
  // H1 = H + Attn(N1 H),  H2 = H1 + MLP(N2 H1)
  void block_forward(const BlockWeights<R>& w, Kept<T>& kept, R* next) {
    LaneBuffers<T>& b = *buffers_;
    normed_linear(w.attention_norm, w.qkv, kept.h, kept.rstd, kept.qkv);
    attention_forward<T>(context_, attention_shape_, kept.qkv, *rope_, kept.mixed, kept.lse,
                         b.attention_scratch);
    linear(w.out, kept.mixed, kept.h_mid, /*residual=*/kept.h);
    normed_linear(w.mlp_norm, w.gate_up, kept.h_mid, kept.rstd_mid, kept.gate_up);
    swiglu_forward<T>(context_, rows_, config_.ffn_width, kept.gate_up, b.hidden);
    linear(w.down, b.hidden, next, /*residual=*/kept.h_mid);
  }

  // buffers_->dh: from the gradient of the block's output to that of its input.
  void block_backward(const BlockWeights<R>& w, Kept<T>& kept) {
    LaneBuffers<T>& b = *buffers_;
    const T* dh = dh_as_operand();
    input_gradient(w.down, dh, b.dhidden);
    swiglu_backward<T>(context_, rows_, config_.ffn_width, kept.gate_up, b.dhidden, b.dgate_up,
                       b.hidden);
    weight_gradient(w.down, dh, b.hidden);
    normed_linear_backward(w.mlp_norm, w.gate_up, kept.h_mid, kept.rstd_mid, b.dgate_up);
    dh = dh_as_operand();
    input_gradient(w.out, dh, b.dmixed);
    weight_gradient(w.out, dh, kept.mixed);
    attention_backward<T>(context_, attention_shape_, kept.qkv, *rope_, kept.mixed, kept.lse,
                          b.dmixed, b.dqkv, b.attention_scratch);
    normed_linear_backward(w.attention_norm, w.qkv, kept.h, kept.rstd, b.dqkv);
  }

  void measure_scale(PassSums& sums) {
    const OpTimer time(context_, OpKind::kOther, Direction::kForward);
    const R* r = buffers_->scale;
    residual_scale<R>(context_, rows_, config_.width, static_cast<R>(config_.norm_eps),
                      buffers_->h_last, buffers_->scale);
    const double target = options_->anchor_target.value_or(0);
    for (int64_t n = 0; n < rows_; ++n) {
      if (mask() && !mask()[n]) continue;
      sums.scale += r[n];
      if (options_->anchor_target) sums.anchor += (r[n] - target) * (r[n] - target);
      ++sums.scale_count;
    }
  }

  // Final norm, head and cross-entropy; dh when going backward.
  void head(const ModelWeights<R>& weights, const BatchView& batch, PassSums& sums) {
    LaneBuffers<T>& b = *buffers_;
    const NormWeights<R>& norm = weights.final_norm;
    HeadArgs<T> args;
    args.shape = {rows_, config_.width, config_.vocab_size};
    args.x = normed(norm, b.h_last, b.rstd_last);
    args.weight = operand(weights.head);
    args.targets = batch.targets;
    args.backward = options_->backward;
    args.loss_weight = static_cast<R>(options_->loss_weight);
    args.dx = norm.is_identity() ? b.dh : b.dx;
    args.dweight = weights.head.gradient;
    const HeadSums head = head_cross_entropy<T>(context_, products_, args, b.head);
    sums.loss = head.loss;
    sums.logit_norm = head.logit_norm;
    sums.count = head.count;
    if (options_->backward && !norm.is_identity())
      norm_backward<T>(context_, norm.args, rows_, b.h_last, b.dx, b.rstd_last,
                       /*residual=*/nullptr, b.dh, norm.dgamma, norm.dgamma_t, /*y=*/nullptr,
                       b.norm_scratch);
  }

  // N(h) as an operand of a product.
  const T* normed(const NormWeights<R>& norm, const R* h, R* rstd) {
    T* x = buffers_->x;
    if (norm.is_identity()) return as_operand<T>(context_, rows_, config_.width, h, x);
    norm_forward<T>(context_, norm.args, rows_, h, x, rstd, norm.sums, mask());
    return x;
  }

  // y = N(h) weight^T
  void normed_linear(const NormWeights<R>& norm, const LinearWeights<R>& w, const R* h, R* rstd,
                     T* y) {
    linear<T>(w, normed(norm, h, rstd), y);
  }

  // buffers_->dh += the gradient through both; parameters' gradients on the way.
  void normed_linear_backward(const NormWeights<R>& norm, const LinearWeights<R>& w, const R* h,
                              const R* rstd, const T* dy) {
    LaneBuffers<T>& b = *buffers_;
    const T* x = b.x;
    if (norm.is_identity()) {
      input_gradient(w, dy, b.dh, /*accumulate=*/true);
      x = as_operand<T>(context_, rows_, config_.width, h, b.x);
    } else {
      input_gradient(w, dy, b.dx);
      norm_backward<T>(context_, norm.args, rows_, h, b.dx, rstd, /*residual=*/b.dh, b.dh,
                       norm.dgamma, norm.dgamma_t, b.x, b.norm_scratch);
    }
    weight_gradient(w, dy, x);
  }

  template <typename Y>
  void linear(const LinearWeights<R>& w, const T* x, Y* y, const Y* residual = nullptr) {
    const OpTimer time(context_, OpKind::kLinear, Direction::kForward);
    products_.forward<T, Y>({rows_, w.in, w.out}, x, operand(w), y, residual);
  }
  template <typename X>
  void input_gradient(const LinearWeights<R>& w, const T* dy, X* dx, bool accumulate = false) {
    const OpTimer time(context_, OpKind::kLinear, Direction::kBackward);
    products_.input_gradient<T, X>({rows_, w.in, w.out}, dy, operand(w), dx, accumulate);
  }
  void weight_gradient(const LinearWeights<R>& w, const T* dy, const T* x) {
    const OpTimer time(context_, OpKind::kLinear, Direction::kBackward);
    products_.weight_gradient<T>({rows_, w.in, w.out}, dy, x, w.gradient);
  }

  const T* dh_as_operand() {
    return as_operand<T>(context_, rows_, config_.width, buffers_->dh, buffers_->dh_operand);
  }
  static const T* operand(const LinearWeights<R>& w) { return static_cast<const T*>(w.operand); }
  const uint8_t* mask() const { return options_->skip_first_position ? buffers_->mask : nullptr; }
  R* input_of(size_t block) {
    return block < buffers_->blocks.size() ? buffers_->blocks[block].h : buffers_->h_last;
  }

  void prepare(const BatchView& batch) {
    if (batch.batch == batch_ && batch.time == time_) return;
    const int threads = context_.team.size();
    MemoryLayout measure;
    LaneBuffers<T>(config_, batch.batch, batch.time, threads, measure);
    if (measure.bytes() > memory_.size()) memory_ = AlignedMemory(measure.bytes());
    MemoryLayout layout(memory_.data());
    buffers_ = std::make_unique<LaneBuffers<T>>(config_, batch.batch, batch.time, threads, layout);
    batch_ = batch.batch;
    time_ = batch.time;
    rows_ = batch_ * time_;
    attention_shape_ = attention_shape(config_, batch_, time_);
  }

  using Lane<R>::context_;

  ModelConfig config_;
  LinearOp products_;
  AlignedMemory memory_;
  std::unique_ptr<LaneBuffers<T>> buffers_;
  int64_t batch_ = 0, time_ = 0, rows_ = 0;
  AttentionShape attention_shape_{};
  const RopeTable<R>* rope_ = nullptr;
  const PassOptions* options_ = nullptr;
};

}  // namespace

PassSums& PassSums::operator+=(const PassSums& other) {
  loss += other.loss;
  logit_norm += other.logit_norm;
  count += other.count;
  anchor += other.anchor;
  scale += other.scale;
  scale_count += other.scale_count;
  norms.resize(std::max(norms.size(), other.norms.size()));
  for (size_t i = 0; i < other.norms.size(); ++i) norms[i] += other.norms[i];
  return *this;
}

template <typename R>
std::unique_ptr<Lane<R>> make_lane(const ModelConfig& config, Activations activations,
                                   const OpContext& context) {
  if constexpr (std::is_same_v<R, float>)
    if (activations == Activations::kBF16) return std::make_unique<LaneOf<bf16>>(config, context);
  TAPER_CHECK(activations == Activations::kFull);
  return std::make_unique<LaneOf<R>>(config, context);
}

template <typename R>
int64_t lane_memory_bytes(const ModelConfig& config, Activations activations, int64_t batch,
                          int64_t time, int threads) {
  MemoryLayout layout;
  if (activations == Activations::kFull)
    LaneBuffers<R>(config, batch, time, threads, layout);
  else
    LaneBuffers<bf16>(config, batch, time, threads, layout);
  return layout.bytes();
}

template std::unique_ptr<Lane<float>> make_lane(const ModelConfig&, Activations, const OpContext&);
template std::unique_ptr<Lane<double>> make_lane(const ModelConfig&, Activations, const OpContext&);
template int64_t lane_memory_bytes<float>(const ModelConfig&, Activations, int64_t, int64_t, int);
template int64_t lane_memory_bytes<double>(const ModelConfig&, Activations, int64_t, int64_t, int);

}  // namespace taper
