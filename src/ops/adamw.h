// AdamW over flat float buffers, one sweep, split over a team (kernels/adamw.h has the formula);
// and what a step needs to know first. Results do not depend on the size of the team.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/adamw.h"
#include "ops/context.h"

namespace taper {

// values, gradients and moments of one size; gradients are only read.
void adamw_update(ThreadPool& team, const AdamWOptions& options, std::span<float> values,
                  std::span<const float> gradients, std::span<float> first_moments,
                  std::span<float> second_moments);

// Sum of squares in double over fixed blocks, added in order. Not finite exactly when an element is
// not: the square of a float never overflows a double.
double sum_of_squares(ThreadPool& team, std::span<const float> values);

}  // namespace taper
