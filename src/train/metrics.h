// metrics.jsonl: one JSON object a line, appended as training goes. Rows have a "kind":
//
//   train        step, loss, anchor_loss, gate, lr, grad_norm, logit_norm, final_scale,
//                tokens_per_s, tokens, seconds
//   valid        step, loss (at the current gate), gate, loss_g0 (from the taper start on)
//   calibration  step, norms: [{name, c}], s_tgt
//   skipped      step, parameter (the first with a non-finite gradient)
//   end          step, train_loss, valid_loss, tokens_per_s, seconds
//
// `step` counts optimizer steps done. Losses are nats a token.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "core/json.h"

namespace taper {

class MetricsFile {
 public:
  // Opens for appending. Rows beyond `last_step` (a run that was killed after its checkpoint) and a
  // torn last line are dropped first.
  MetricsFile(const std::filesystem::path& path, int64_t last_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void append(const Json& row);  // written through to the file at once

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace taper
