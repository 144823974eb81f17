// Folding from checkpoint to checkpoint, with the proof: the folded model is run in memory next to
// the unfolded one on real tokens, and written only when their logits agree.
#pragma once

#include <filesystem>

#include "infer/compare.h"
#include "taper/fold.h"

namespace taper {

struct FoldReport {
  int64_t norms_folded = 0;  // by this fold
  int64_t norms_kept = 0;    // plain norms that remain
  LogitComparison comparison;
  double rounding_noise = 0;  // relative difference of a model one unit in the last place away
  double tolerance = 0;       // what the comparison had to stay within (taper/verify.h)
};

// Nothing touches the disk before the verification passed; an existing `out` is replaced if
// `replace`, else ConfigError. ConfigError when the checkpoint cannot be folded (taper/fold.h),
// NumericsError when the logits differ by more than the tolerance.
FoldReport fold_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                           bool replace, const TokenSample& sample, ThreadPool& pool);

}  // namespace taper
