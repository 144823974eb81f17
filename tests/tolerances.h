// How far fp32 results may lie from a double-precision reference, in one place. Each bound is the
// largest difference measured (SSE2, AVX2 and AVX-512, many seeds) times about four.
#pragma once

namespace taper::test {

// |result - reference| of a sum of products, relative to the sum of their absolute values.
inline constexpr double kProductTolerance = 1e-6;

// Attention outputs, relative to the largest absolute value entry of the cache.
inline constexpr double kAttentionTolerance = 4e-6;

// Rotated values, relative to the length of the pair.
inline constexpr double kRotationTolerance = 3e-7;

// Logits of small random models, relative to the largest logit of the position.
inline constexpr double kModelTolerance = 1e-5;

// The mean loss of a model in nats, engine against reference.
inline constexpr double kLossTolerance = 1e-5;

}  // namespace taper::test
