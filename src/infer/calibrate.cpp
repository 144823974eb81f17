#include "infer/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"

namespace taper {
namespace {

constexpr size_t kChunk = 128;

struct Observed {
  const float* gamma = nullptr;
  NormStatistics first, rest;  // position 0 and the other ones
  ScaleHistogram histogram;
};

// The norms of the model with their gamma, in execution order.
std::vector<std::pair<std::string, const float*>> plain_norms(const Model& model) {
  std::vector<std::pair<std::string, const float*>> norms;
  const auto add = [&](const Norm& norm) {
    if (model.checkpoint().norm_state(norm.site) != NormState::kPlain)
      throw ConfigError(
          fmt::format("{}: norm {} is tapered or folded; calibration needs a model with its norms",
                      model.checkpoint().what(), norm.site.name),
          "calibrate the model it was trained from; taper info shows the state of a checkpoint");
    norms.emplace_back(norm.site.name, norm.args.gamma);
  };
  for (const Layer& layer : model.layers()) {
    add(layer.attention_norm);
    add(layer.ffn_norm);
  }
  add(model.final_norm());
  return norms;
}

NormCalibration summarize(const std::string& name, const Observed& observed) {
  NormStatistics all = observed.first;
  all.merge(observed.rest);
  NormCalibration result;
  result.name = name;
  result.scale = all.scale(name);
  result.relative_error = all.relative_error(result.scale);
  result.r_p1 = observed.histogram.quantile(0.01);
  result.r_median = observed.histogram.quantile(0.5);
  result.r_p99 = observed.histogram.quantile(0.99);
  result.r_max = all.max_r;
  if (observed.rest.tokens > 0) {
    result.scale_without_first = observed.rest.scale(name);
    result.relative_error_without_first = observed.rest.relative_error(*result.scale_without_first);
  }
  return result;
}

}  // namespace

Calibration calibrate(const Model& model, ThreadPool& pool, const TokenSample& sample) {
  const auto norms = plain_norms(model);
  std::map<std::string, Observed> observed;
  for (const auto& [name, gamma] : norms) observed[name].gamma = gamma;
  int64_t capacity = 1;
  for (const auto& ids : sample.sequences) capacity = std::max(capacity, std::ssize(ids));

  const ModelConfig& config = model.config();
  Session session(model, pool, capacity);
  session.set_norm_observer([&](const NormSite& site, const float* h, int64_t rows) {
    Observed& norm = observed.at(site.name);
    for (int64_t row = 0; row < rows; ++row) {
      NormStatistics& part = session.position() + row == 0 ? norm.first : norm.rest;
      norm.histogram.add(
          part.add(h + row * config.width, norm.gamma, config.width, config.norm_eps));
    }
  });
  Progress progress("calibrating", sample.num_tokens(), "tokens");
  Calibration result;
  for (const auto& ids : sample.sequences) {
    session.rewind();
    for (size_t begin = 0; begin < ids.size(); begin += kChunk) {
      throw_if_interrupted();
      const size_t count = std::min(kChunk, ids.size() - begin);
      session.forward(std::span(ids).subspan(begin, count), LogitRows::kNone);
      progress.update(result.tokens += static_cast<int64_t>(count));
    }
  }
  for (const auto& [name, gamma] : norms)
    result.norms.push_back(summarize(name, observed.at(name)));
  const Observed& last = observed.at(norms.back().first);
  NormStatistics all = last.first;
  all.merge(last.rest);
  result.anchor_target = all.mean_r();
  return result;
}

}  // namespace taper
