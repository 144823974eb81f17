// Decoding speed of several models beside each other, and the limit they are judged against.
//
// One row of fixed token ids is decoded by every model in turn, round after round, so that whatever
// else the machine does meets all of them alike. Decoding reads every weight once a token: the
// limit is the rate at which this machine reads that many bytes, over and over, with the same
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/session.h"

namespace taper {

struct DecodeVariant {
  std::string name;
  const Model* model;
};

struct DecodeBenchOptions {
  int64_t new_tokens = 128;  // a round
  int64_t rounds = 7;        // timed; one more warms up

  void validate(const std::vector<DecodeVariant>& variants) const;  // ConfigError
};

struct DecodeRow {
  std::string variant;
  double median = 0, min = 0, max = 0;  // tokens per second
  double ratio = 1;                     // median of the rounds' ratios to the first variant
  double limit = 0;                     // tokens per second at the machine's read bandwidth
  int64_t weight_bytes = 0;             // read per token
};

// Shows progress; throws Interrupted on Ctrl-C.
std::vector<DecodeRow> bench_decode(const std::vector<DecodeVariant>& variants, ThreadPool& pool,
                                    const DecodeBenchOptions& options);

// Bytes per second of reading a buffer of `bytes` again and again: from memory when it is larger
// than the caches, else from them. Best of several tries; `seconds` in all.
double read_bandwidth(ThreadPool& pool, int64_t bytes, double seconds);

}  // namespace taper
