// Two models side by side on the same tokens, each through its own session.
#pragma once

#include <vector>

#include "infer/session.h"
#include "infer/token_sample.h"
#include "taper/verify.h"

namespace taper {

// Compares the logits of every position of every sequence. The models must have one vocabulary and
// enough context for the sequences. Shows progress; throws Interrupted on Ctrl-C.
LogitComparison compare_models(const Model& reference, const Model& other, ThreadPool& pool,
                               const TokenSample& sample);

}  // namespace taper
