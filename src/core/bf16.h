// bfloat16 storage: the upper half of a float. Arithmetic happens in float; this type only stores.
#pragma once

#include <bit>
#include <cstdint>

namespace taper {

struct bf16 {
  uint16_t bits;
};

inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Round to nearest even; NaN stays NaN.
inline bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace taper
