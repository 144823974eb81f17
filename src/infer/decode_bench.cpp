#include "infer/decode_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/timing.h"
#include "kernels/matmul.h"

namespace taper {
namespace {

double decode_round(Session& session, int64_t tokens, int64_t vocab) {
  session.rewind();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < tokens; ++i) {
    const auto id = static_cast<int32_t>(i * 7919 % vocab);
    session.forward(std::span(&id, 1), LogitRows::kLast);
  }
  return static_cast<double>(tokens) / seconds_since(start);
}

}  // namespace

void DecodeBenchOptions::validate(const std::vector<DecodeVariant>& variants) const {
  if (variants.empty()) throw ConfigError("no checkpoint to measure");
  if (rounds < 1) throw ConfigError(fmt::format("{} rounds, expected 1 or more", rounds));
  for (const DecodeVariant& variant : variants) {
    const int64_t context = variant.model->config().context;
    if (new_tokens >= 1 && new_tokens <= context) continue;
    throw ConfigError(fmt::format("{} new tokens, expected 1 to {}, the context of {}", new_tokens,
                                  context, variant.name));
  }
}

double read_bandwidth(ThreadPool& pool, int64_t bytes, double seconds) {
  // The product with one row is a reader of its matrix that computes less than it waits.
  constexpr int64_t kDepth = 512;
  const int64_t rows = std::max<int64_t>(bytes / static_cast<int64_t>(kDepth * sizeof(float)), 64);
  const std::vector<float> matrix(static_cast<size_t>(rows * kDepth), 1.0f);
  const std::vector<float> x(kDepth, 1.0f);
  std::vector<float> y(static_cast<size_t>(rows));
  const MatmulArgs args{.x = x.data(),
                        .x_stride = kDepth,
                        .w = matrix.data(),
                        .w_stride = kDepth,
                        .y = y.data(),
                        .y_stride = rows,
                        .rows = 1,
                        .depth = kDepth,
                        .accumulate = false};
  double best = 0;
  const auto start = std::chrono::steady_clock::now();
  do {
    const auto pass = std::chrono::steady_clock::now();
    pool.run(rows, 8, [&](Range outputs) { matmul_transposed(args, outputs); });
    const double size = static_cast<double>(matrix.size() * sizeof(float));
    best = std::max(best, size / std::max(seconds_since(pass), 1e-9));
  } while (seconds_since(start) < seconds);
  return best;
}

std::vector<DecodeRow> bench_decode(const std::vector<DecodeVariant>& variants, ThreadPool& pool,
                                    const DecodeBenchOptions& options) {
  options.validate(variants);
  std::vector<Session> sessions;
  sessions.reserve(variants.size());
  for (const DecodeVariant& variant : variants)
    sessions.emplace_back(*variant.model, pool, options.new_tokens);
  std::vector<std::vector<double>> speeds(variants.size());
  Progress progress("decoding", options.rounds + 1, "rounds");
  for (int64_t round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < variants.size(); ++i) {
      throw_if_interrupted();
      const int64_t vocab = variants[i].model->config().vocab_size;
      const double speed = decode_round(sessions[i], options.new_tokens, vocab);
      if (round > 0) speeds[i].push_back(speed);
    }
    progress.update(round + 1);
  }
  std::vector<DecodeRow> rows;
  for (size_t i = 0; i < variants.size(); ++i) {
    std::vector<double> ratios;
    for (size_t r = 0; r < speeds[i].size(); ++r) ratios.push_back(speeds[i][r] / speeds[0][r]);
    const auto [low, high] = std::minmax_element(speeds[i].begin(), speeds[i].end());
    const int64_t bytes = variants[i].model->weight_bytes_per_token();
    rows.push_back({.variant = variants[i].name,
                    .median = median(speeds[i]),
                    .min = *low,
                    .max = *high,
                    .ratio = median(ratios),
                    .limit = read_bandwidth(pool, bytes, 0.3) / static_cast<double>(bytes),
                    .weight_bytes = bytes});
  }
  return rows;
}

}  // namespace taper
