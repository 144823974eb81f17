// Reproducible random numbers: Philox4x32-10 (Salmon et al. 2011), a pure function of (key,
// counter).
//
// A stream is named by (seed, stream); its position is one integer, so saving and resuming a stream
// is saving that integer. Streams with different names are independent. Not for cryptography.
#pragma once

#include <array>
#include <cstdint>

namespace taper {

// The four 32-bit words of block `counter` of the stream.
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t counter);

class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0, uint64_t position = 0);

  uint32_t next_u32();
  uint64_t next_u64();
  double uniform();                // [0, 1), 53 bits
  double normal();                 // mean 0, deviation 1 (Box-Muller, two uniforms a call)
  uint64_t below(uint64_t bound);  // uniform in [0, bound), bound > 0, no modulo bias

  uint64_t position() const { return position_; }  // words drawn so far

 private:
  uint64_t seed_, stream_, position_;
  uint64_t block_counter_;  // which block block_ holds
  std::array<uint32_t, 4> block_;
};

}  // namespace taper
