// Runs a test body once for every SIMD target that the kernels have and this machine can run.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace taper::test {

template <typename Body>
void for_each_target(const Body& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target == HWY_SSSE3 || target == HWY_SSE4) continue;  // not compiled (cmake/layers.cmake)
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace taper::test
