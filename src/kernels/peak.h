// The arithmetic limits of one thread, on registers alone. `sink` takes a value that depends on all
// that was computed.
#pragma once

#include <cstdint>

namespace taper {

// Independent fused multiply-adds; returns the floating-point operations done, two a multiply-add
// and lane.
int64_t run_fma_chains(int64_t rounds, float* sink);

// The kernels' 2^x; returns how many were computed.
int64_t run_exponentials(int64_t rounds, float* sink);

}  // namespace taper
