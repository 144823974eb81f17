#include "infer/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace taper {
namespace {

using Candidate = Sampler::Candidate;

void check_range(const char* option, double value, double low, double high, const char* meaning) {
  if (value >= low && value <= high) return;
  throw ConfigError(fmt::format("{} is {}, expected {} to {}", option, value, low, high), meaning);
}

// More likely first, equals by id.
bool before(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

void keep_top_k(std::vector<Candidate>& candidates, int64_t k) {
  if (k == 0 || k >= std::ssize(candidates)) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), before);
  candidates.resize(static_cast<size_t>(k));
}

// Takes the most likely from a heap until they reach p: few, as a rule, of many.
void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1) return;
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), after);
  double kept = 0;
  auto rest = candidates.end();
  do {
    std::pop_heap(candidates.begin(), rest--, after);
    kept += rest->weight;
  } while (kept < p * total && rest != candidates.begin());
  candidates.erase(candidates.begin(), rest);
}

void keep_min_p(std::vector<Candidate>& candidates, double min_p) {
  if (min_p == 0) return;
  double largest = 0;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.weight);
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < min_p * largest; });
}

// The id of the largest of the first `limit` logits, the lower id among equals.
int32_t most_likely(std::span<const float> logits, int64_t limit) {
  int64_t best = 0;
  for (int64_t id = 0; id < limit; ++id) {
    const float logit = logits[static_cast<size_t>(id)];
    if (!std::isfinite(logit)) {
      throw NumericsError(fmt::format("the logit of token {} is {}", id, logit),
                          "the model's weights are damaged, or its residual stream overflows");
    }
    if (logit > logits[static_cast<size_t>(best)]) best = id;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

void SamplerOptions::validate() const {
  check_range("temperature", temperature, 0, 100, "0 is greedy, 1 the model's own distribution");
  check_range("top-k", static_cast<double>(top_k), 0, 1e9, "0 keeps all candidates");
  if (!(top_p > 0)) {
    throw ConfigError(fmt::format("top-p is {}, expected above 0 up to 1", top_p),
                      "1 keeps all candidates");
  }
  check_range("top-p", top_p, 0, 1, "1 keeps all candidates");
  check_range("min-p", min_p, 0, 1, "0 keeps all candidates");
}

Sampler::Sampler(const SamplerOptions& options, int64_t limit)
    : options_(options), limit_(limit), random_(options.seed) {
  options_.validate();
  TAPER_CHECK(limit > 0);
}

std::vector<Candidate> Sampler::candidates(std::span<const float> logits) const {
  TAPER_CHECK(limit_ <= std::ssize(logits) && options_.temperature > 0);
  const double largest = logits[static_cast<size_t>(most_likely(logits, limit_))];
  std::vector<Candidate> result(static_cast<size_t>(limit_));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = {static_cast<int32_t>(i), std::exp((logits[i] - largest) / options_.temperature)};
  keep_top_k(result, options_.top_k);
  keep_top_p(result, options_.top_p);
  keep_min_p(result, options_.min_p);
  std::sort(result.begin(), result.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return result;
}

int32_t Sampler::sample(std::span<const float> logits) {
  TAPER_CHECK(limit_ <= std::ssize(logits));
  if (options_.temperature == 0) return most_likely(logits, limit_);
  const std::vector<Candidate> survivors = candidates(logits);
  double total = 0;
  for (const Candidate& candidate : survivors) total += candidate.weight;
  double rest = random_.uniform() * total;
  for (const Candidate& candidate : survivors) {
    rest -= candidate.weight;
    if (rest < 0) return candidate.id;
  }
  // Only rounding leads here; a weight that underflowed to zero must not win by it.
  for (auto it = survivors.rbegin(); it != survivors.rend(); ++it)
    if (it->weight > 0) return it->id;
  TAPER_CHECK(false);
}

}  // namespace taper
