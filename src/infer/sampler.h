// Choosing the next token from logits.
//
// Order: ids from `limit` on (padding of the vocabulary) are never candidates; temperature; top-k;
// top-p; min-p; one draw. Each filter sees what the one before it left, renormalised.
//   temperature T  p ~ exp(logit / T); 0 is greedy: the largest logit, ties to the lower id
//   top-k          the k most likely; ties at the border go to the lower id; 0 is off
//   top-p          the fewest most likely whose probabilities reach p, at least one; 1 is off
//   min-p          those at least min_p times as likely as the most likely one; 0 is off
// The draw takes one uniform number per token (greedy takes none) and walks the survivors by id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"

namespace taper {

struct SamplerOptions {
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  uint64_t seed = 0;

  void validate() const;  // ConfigError naming the option, its value and what is allowed
};

class Sampler {
 public:
  // Candidates are the ids below `limit`.
  Sampler(const SamplerOptions& options, int64_t limit);

  // NumericsError when a candidate's logit is not finite.
  int32_t sample(std::span<const float> logits);

  struct Candidate {
    int32_t id;
    double weight;  // not normalised, the largest is 1
  };
  // The candidates that survive all filters, in order of id. Not for temperature 0.
  std::vector<Candidate> candidates(std::span<const float> logits) const;

 private:
  SamplerOptions options_;
  int64_t limit_;
  Random random_;
};

}  // namespace taper
