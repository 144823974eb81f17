// The cases over which passes are compared: scopes, gates, anchor, heads, masks.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "train/pass/training_pass.h"
#include "train/random_model.h"

namespace taper::test {

struct PassCase {
  TaperScope scope;
  double gate;
  bool anchor;
  bool tied;
  bool skip_first;

  PassOptions options() const {
    PassOptions options;
    options.gate = gate;
    options.skip_first_position = skip_first;
    if (anchor) options.anchor_target = 1.3;
    options.backward = true;
    options.loss_weight = 0.02;
    options.anchor_weight = 0.01;
    return options;
  }

  friend std::ostream& operator<<(std::ostream& out, const PassCase& c) {
    return out << to_string(c.scope) << " gate " << c.gate << (c.anchor ? " anchor" : "")
               << (c.tied ? " tied" : " untied") << (c.skip_first ? " skip_first" : "");
  }
};

inline const std::vector<PassCase> kPassCases = {
    {TaperScope::kNone, 1, false, true, false},     {TaperScope::kInternal, 1, true, false, false},
    {TaperScope::kInternal, 0.4, true, true, true}, {TaperScope::kInternal, 0, true, false, false},
    {TaperScope::kFinal, 0.7, false, true, false},  {TaperScope::kFinal, 0, false, false, true},
    {TaperScope::kAll, 0.3, true, false, false},    {TaperScope::kAll, 0, true, true, false}};

}  // namespace taper::test
