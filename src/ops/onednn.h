// The part of oneDNN that this project uses: matrix products on one thread. The library is opened
// when a product first needs it, since loading it costs more than everything else at a start of the
// program, and a machine that only decodes may lack it.
#pragma once

#include <cstdint>
#include <memory>

namespace taper::onednn {

enum class Type { kFloat, kBF16 };
enum class After { kNothing, kAddToResult, kAddOther };

// C [m, n] = A [m, k] B [k, n], then C += C before or other [m, n]. The strides are elements
// between neighbours along the first and the second dimension, one of which is 1.
struct Product {
  int64_t m, n, k;
  int64_t a_rows, a_columns;  // strides of A
  int64_t b_rows, b_columns;
  int64_t c_rows;  // C's and other's rows are contiguous
  Type in, out;
  After after;

  bool operator==(const Product&) const = default;
};

// One product, prepared; run() as often as wanted, one call at a time.
// ResourceError when the library is missing, refuses the product or has no memory.
class Matmul {
 public:
  explicit Matmul(const Product& product);
  ~Matmul();
  void run(const void* a, const void* b, void* c, const void* other);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether the CPU multiplies bf16 at all, and with instructions of its own (AVX-512 BF16 or AMX).
bool has_bf16();
bool has_fast_bf16();

}  // namespace taper::onednn
