#include "infer/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/cached_attention.h"
#include "kernels/matmul.h"
#include "kernels/swiglu.h"
#include "kernels/taper_norm.h"

namespace taper {
namespace {

// Tokens in one pass of prefill: enough to reuse each weight from cache, few enough that
// activations stay there too.
constexpr int64_t kChunkRows = 128;

// Least work for one thread, in multiply-adds: some ten microseconds, above the cost of handing it
// over.
constexpr int64_t kWorkGrain = 100'000;

int64_t grain_for(int64_t work_per_item) {
  return std::max<int64_t>(1, kWorkGrain / std::max<int64_t>(1, work_per_item));
}

size_t elements(int64_t rows, int64_t width) { return static_cast<size_t>(rows * width); }

void run_linear(ThreadPool& pool, const Linear& linear, const float* x, MatmulArgs args) {
  args.x = x;
  args.x_stride = args.depth = args.w_stride = linear.in;
  args.w = linear.weight;
  pool.run(linear.out, grain_for(args.rows * linear.in),
           [&args](Range outputs) { matmul_transposed(args, outputs); });
}

// y = x W^T; rows of y lie `y_stride` apart (0: packed).
void apply(ThreadPool& pool, const Linear& linear, const float* x, int64_t rows, float* y,
           int64_t y_stride = 0) {
  MatmulArgs args{};
  args.y = y;
  args.y_stride = y_stride > 0 ? y_stride : linear.out;
  args.rows = rows;
  run_linear(pool, linear, x, args);
}

// y += x W^T
void accumulate(ThreadPool& pool, const Linear& linear, const float* x, int64_t rows, float* y) {
  MatmulArgs args{};
  args.y = y;
  args.y_stride = linear.out;
  args.rows = rows;
  args.accumulate = true;
  run_linear(pool, linear, x, args);
}

// Writes row r of x (heads of width K side by side) to column `position + r` of the cache.
void store_transposed(const float* x, int64_t width, int64_t rows, float* cache, int64_t stride,
                      int64_t position) {
  for (int64_t channel = 0; channel < width; ++channel) {
    float* to = cache + channel * stride + position;
    for (int64_t r = 0; r < rows; ++r) to[r] = x[r * width + channel];
  }
}

}  // namespace

Session::Session(const Model& model, ThreadPool& pool, int64_t capacity)
    : model_(model),
      pool_(pool),
      capacity_(capacity),
      stride_((capacity + kAttentionAlignment - 1) / kAttentionAlignment * kAttentionAlignment),
      rope_(0, model.config().head_width, model.config().rope_theta) {
  const ModelConfig& c = model.config();
  if (capacity < 1 || capacity > c.context) {
    throw ConfigError(fmt::format("a context of {} tokens does not fit this model", capacity),
                      fmt::format("it was trained for 1..{} positions", c.context));
  }
  rope_ = RopeTable<float>(capacity, c.head_width, c.rope_theta);
  keys_.resize(elements(c.num_layers * c.kv_width(), stride_));
  values_.resize(keys_.size());
  const int64_t rows = std::min(kChunkRows, capacity);
  work_.h.resize(elements(rows, c.width));
  work_.x.resize(elements(rows, c.width));
  work_.q.resize(elements(rows, c.q_width()));
  work_.k.resize(elements(rows, c.kv_width()));
  work_.v.resize(elements(rows, c.kv_width()));
  work_.attention.resize(elements(rows, c.q_width()));
  work_.gate_up.resize(elements(rows, 2 * c.ffn_width));
  work_.ffn.resize(elements(rows, c.ffn_width));
  work_.rstd.resize(static_cast<size_t>(rows));
  work_.scores.resize(elements(pool.size(), stride_));
}

void Session::rewind(int64_t position) {
  TAPER_CHECK(position >= 0 && position <= position_);
  position_ = position;
}

std::span<float> Session::forward(std::span<const int32_t> tokens, LogitRows rows) {
  const int64_t count = std::ssize(tokens);
  const int64_t vocab = model_.config().vocab_size;
  if (count > capacity_ - position_) {
    throw ConfigError(fmt::format("{} more tokens do not fit: {} of {} positions are taken", count,
                                  position_, capacity_),
                      "shorten the text or raise the context up to the model's own");
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens[static_cast<size_t>(i)];
    if (id < 0 || id >= vocab) {
      throw FormatError(fmt::format("token id {} at position {} lies beyond the vocabulary of {}",
                                    id, position_ + i, vocab),
                        "the tokens were made with another tokenizer");
    }
  }
  const int64_t wanted = rows == LogitRows::kNone  ? 0
                         : rows == LogitRows::kAll ? count
                                                   : std::min<int64_t>(count, 1);
  const size_t needed = elements(wanted, vocab);
  if (work_.logits.size() < needed) work_.logits.resize(needed);
  float* logits = work_.logits.data();
  for (int64_t done = 0; done < count;) {
    const int64_t size = std::min(kChunkRows, count - done);
    const bool last = done + size == count;
    const LogitRows chunk_rows = rows == LogitRows::kLast && !last ? LogitRows::kNone : rows;
    run_chunk(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(size)), chunk_rows,
              logits);
    if (rows == LogitRows::kAll) logits += size * vocab;
    position_ += size;
    done += size;
  }
  return {work_.logits.data(), needed};
}

void Session::run_chunk(std::span<const int32_t> tokens, LogitRows rows, float* logits) {
  const int64_t width = model_.config().width;
  const int64_t count = std::ssize(tokens);
  float* h = work_.h.data();
  for (int64_t r = 0; r < count; ++r) {
    const float* row = model_.embedding() + tokens[static_cast<size_t>(r)] * width;
    std::copy_n(row, width, h + r * width);
  }
  int64_t index = 0;
  for (const Layer& layer : model_.layers()) {
    run_attention(layer, index++, count);
    run_ffn(layer, count);
  }
  // The final norm and the head run only for the rows asked for; an observer sees all rows.
  const int64_t wanted = rows == LogitRows::kAll ? count : rows == LogitRows::kLast ? 1 : 0;
  const int64_t skipped = count - wanted;
  if (observer_) observer_(model_.final_norm().site, h, count);
  if (wanted == 0) return;
  const float* x = run_norm(model_.final_norm(), h + skipped * width, wanted, work_.x.data());
  apply(pool_, model_.head(), x, wanted, logits);
}

void Session::run_attention(const Layer& layer, int64_t index, int64_t rows) {
  const ModelConfig& c = model_.config();
  if (observer_) observer_(layer.attention_norm.site, work_.h.data(), rows);
  const float* x = run_norm(layer.attention_norm, work_.h.data(), rows, work_.x.data());
  apply(pool_, layer.q, x, rows, work_.q.data());
  apply(pool_, layer.k, x, rows, work_.k.data());
  apply(pool_, layer.v, x, rows, work_.v.data());
  for (int64_t r = 0; r < rows; ++r) {
    rope_.rotate(work_.q.data() + r * c.q_width(), c.num_heads, position_ + r);
    rope_.rotate(work_.k.data() + r * c.kv_width(), c.num_kv_heads, position_ + r);
  }
  float* keys = keys_.data() + index * c.kv_width() * stride_;
  float* values = values_.data() + index * c.kv_width() * stride_;
  store_transposed(work_.k.data(), c.kv_width(), rows, keys, stride_, position_);
  store_transposed(work_.v.data(), c.kv_width(), rows, values, stride_, position_);

  const int64_t group = c.num_heads / c.num_kv_heads;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_width)));
  // One item is one head of one row; each thread has its own scores.
  pool_.run(rows * c.num_heads, grain_for(2 * c.head_width * (position_ + rows)),
            [&](Range items, int part) {
              float* scores = work_.scores.data() + part * stride_;
              for (int64_t item = items.begin; item < items.end; ++item) {
                const int64_t row = item / c.num_heads, head = item % c.num_heads;
                const int64_t offset = head / group * c.head_width * stride_;
                const int64_t out = row * c.q_width() + head * c.head_width;
                cached_attention({.q = work_.q.data() + out,
                                  .keys = keys + offset,
                                  .values = values + offset,
                                  .stride = stride_,
                                  .length = position_ + row + 1,
                                  .head_width = c.head_width,
                                  .scale = scale,
                                  .scores = scores,
                                  .out = work_.attention.data() + out});
              }
            });
  accumulate(pool_, layer.o, work_.attention.data(), rows, work_.h.data());
}

void Session::run_ffn(const Layer& layer, int64_t rows) {
  if (observer_) observer_(layer.ffn_norm.site, work_.h.data(), rows);
  const float* x = run_norm(layer.ffn_norm, work_.h.data(), rows, work_.x.data());
  // Gate and up side by side in each row.
  const int64_t width = model_.config().ffn_width;
  apply(pool_, layer.gate, x, rows, work_.gate_up.data(), 2 * width);
  apply(pool_, layer.up, x, rows, work_.gate_up.data() + width, 2 * width);
  pool_.run(rows, grain_for(16 * width), [&](Range part) {
    swiglu_forward_rows(part, width, work_.gate_up.data(), work_.ffn.data());
  });
  accumulate(pool_, layer.down, work_.ffn.data(), rows, work_.h.data());
}

const float* Session::run_norm(const Norm& norm, const float* h, int64_t rows, float* y) {
  if (norm.form == NormForm::kIdentity) return h;
  taper_rms_norm_forward(norm.args, {0, rows}, h, y, work_.rstd.data());
  return y;
}

}  // namespace taper
