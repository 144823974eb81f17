// The demo's figures: a baseline, its tapered twin at g = 0, and that twin folded.
//
// They are gathered from a folder of results, the --json output of the commands that measured them:
//
//   eval-baseline.json, eval-tapered.json, eval-folded.json   taper eval: loss
//   fold.json      taper fold: max_abs_logit_diff
//   info.json      taper info of the baseline: parameters
//   bench.json     taper bench decode: rows with variant (baseline, explicit, folded), tokens_per_s
//   generate.json  taper generate of the folded model: prompt, text
//
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/json.h"

namespace taper {

struct Summary {
  double baseline_loss = 0;  // nats per held-out token
  double tapered_loss = 0;   // at g = 0
  double folded_loss = 0;
  double fold_max_abs_logit_diff = 0;
  int64_t parameters = 0;
  double baseline_tokens_per_s = 0;
  double explicit_tokens_per_s = 0;
  double folded_tokens_per_s = 0;
  double seconds = 0;  // of the whole demo
  std::string sample;  // written by the folded model

  double gap_percent() const { return 100 * (tapered_loss / baseline_loss - 1); }
};

Json to_json(const Summary& summary);
Summary summary_from_json(const Json& json, const std::string& what);  // FormatError

// FormatError naming the file and the key that is absent.
Summary gather_summary(const std::filesystem::path& results, double seconds);

// A table for a terminal, ending in a newline.
std::string to_text(const Summary& summary);

}  // namespace taper
