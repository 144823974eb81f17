#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace taper {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  uint32_t x0 = static_cast<uint32_t>(counter), x1 = static_cast<uint32_t>(counter >> 32);
  uint32_t x2 = static_cast<uint32_t>(stream), x3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * x0, product1 = kMultiplier1 * x2;
    x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key0;
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x1 = static_cast<uint32_t>(product1);
    x3 = static_cast<uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return {x0, x1, x2, x3};
}

Random::Random(uint64_t seed, uint64_t stream, uint64_t position)
    : seed_(seed), stream_(stream), position_(position), block_counter_(position / 4) {
  block_ = philox(seed_, stream_, block_counter_);
}

uint32_t Random::next_u32() {
  const uint64_t counter = position_ / 4;
  if (counter != block_counter_) {
    block_ = philox(seed_, stream_, counter);
    block_counter_ = counter;
  }
  return block_[position_++ % 4];
}

uint64_t Random::next_u64() {
  const uint64_t low = next_u32();
  return low | static_cast<uint64_t>(next_u32()) << 32;
}

double Random::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

double Random::normal() {
  const double u = 1.0 - uniform();  // in (0, 1]: the logarithm is finite
  const double angle = 2.0 * std::numbers::pi * uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
}

uint64_t Random::below(uint64_t bound) {
  TAPER_CHECK(bound > 0);
  // Lemire's method: the high word of x * bound, rejecting the few x that would favour small
  // results.
  const uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const auto product = static_cast<unsigned __int128>(next_u64()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

}  // namespace taper
