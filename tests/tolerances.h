// How far fp32 results may lie from a double-precision reference, in one place. Each bound is about
// four times the largest difference measured with SSE2 and AVX2, which is given beside it.
#pragma once

namespace taper::test {

// |result - reference| of a sum of products, relative to the sum of their absolute values, plus 1.
// Measured 1.3e-7 over depths of 1 to 1100.
inline constexpr double kProductTolerance = 5e-7;

// Attention outputs over values of standard deviation 2, relative to 8. Measured 6.2e-7.
inline constexpr double kAttentionTolerance = 2.5e-6;

// Rotated values, relative to the length of the pair. Measured 1.2e-7.
inline constexpr double kRotationTolerance = 5e-7;

// Logits of small random models, relative to the largest logit of the position. Measured 4.1e-6
// over 150 models of every scope and gate.
inline constexpr double kModelTolerance = 1.6e-5;

// The mean loss of such a model in nats: a difference of two logits, averaged.
inline constexpr double kLossTolerance = 2e-5;

}  // namespace taper::test
