#include "train/pass/buffers.h"

#include <algorithm>
#include <type_traits>

#include "ops/norm.h"

namespace taper {

AttentionShape attention_shape(const ModelConfig& config, int64_t batch, int64_t time) {
  return {batch, time, config.num_heads, config.num_kv_heads, config.head_width};
}

template <typename T>
LaneBuffers<T>::LaneBuffers(const ModelConfig& c, int64_t batch, int64_t time, int threads,
                            MemoryLayout& layout) {
  const int64_t rows = batch * time, width = c.width;
  const int64_t qkv_width = c.q_width() + 2 * c.kv_width();
  for (int64_t i = 0; i < c.num_layers; ++i) {
    Kept<T> kept;
    kept.h = layout.take<R>(rows * width);
    kept.h_mid = layout.take<R>(rows * width);
    kept.qkv = layout.take<T>(rows * qkv_width);
    kept.mixed = layout.take<T>(rows * c.q_width());
    kept.lse = layout.take<R>(rows * c.num_heads);
    kept.gate_up = layout.take<T>(rows * 2 * c.ffn_width);
    kept.rstd = layout.take<R>(rows);
    kept.rstd_mid = layout.take<R>(rows);
    blocks.push_back(kept);
  }
  h_last = layout.take<R>(rows * width);
  rstd_last = layout.take<R>(rows);
  scale = layout.take<R>(rows);
  mask = layout.take<uint8_t>(rows);
  x = layout.take<T>(rows * width);
  dx = layout.take<R>(rows * width);
  dh = layout.take<R>(rows * width);
  dh_operand = std::is_same_v<T, R> ? nullptr : layout.take<T>(rows * width);
  norm_scratch = layout.take<R>(taper::norm_scratch(rows, width));

  const int64_t shared = layout.position();
  hidden = layout.take<T>(rows * c.ffn_width);
  dhidden = layout.take<T>(rows * c.ffn_width);
  dgate_up = layout.take<T>(rows * 2 * c.ffn_width);
  layout.rewind(shared);
  dmixed = layout.take<T>(rows * c.q_width());
  dqkv = layout.take<T>(rows * qkv_width);
  attention_scratch =
      layout.take<R>(taper::attention_scratch(attention_shape(c, batch, time), threads));
  layout.rewind(shared);
  head = HeadScratch<T>({rows, width, c.vocab_size}, layout);
}

template struct LaneBuffers<float>;
template struct LaneBuffers<bf16>;
template struct LaneBuffers<double>;

}  // namespace taper
