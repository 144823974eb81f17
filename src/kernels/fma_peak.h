// The arithmetic limit of one thread: independent fused multiply-adds on registers, no memory.
#pragma once

#include <cstdint>

namespace taper {

// Runs `rounds` rounds and returns the floating-point operations done, two a multiply-add and lane.
// `sink` takes a value that depends on all of them.
int64_t run_fma_chains(int64_t rounds, float* sink);

}  // namespace taper
