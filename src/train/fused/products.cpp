#include "train/fused/products.h"

#include <fmt/format.h>

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace taper {

namespace {

using Memory = dnnl::memory;
using Type = Memory::data_type;

template <typename T>
constexpr Type kType = Type::f32;
template <>
constexpr Type kType<bf16> = Type::bf16;

// Instruction sets are sets of bits.
bool cpu_has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (bits & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

enum class After { kNothing, kAddToResult, kAddOther };

// C [m, n] = A [m, k] B [k, n]; a transposed operand is stored the other way round.
struct Product {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  Type in, out;
  After after;

  bool operator==(const Product&) const = default;
};

struct ProductHash {
  size_t operator()(const Product& p) const {
    size_t hash = 0;
    for (const int64_t part :
         {p.m, p.n, p.k, int64_t{p.a_transposed}, int64_t{p.b_transposed},
          static_cast<int64_t>(p.in), static_cast<int64_t>(p.out), static_cast<int64_t>(p.after)})
      hash = (hash ^ static_cast<size_t>(part)) * 1099511628211ull;
    return hash;
  }
};

Memory::desc matrix(int64_t rows, int64_t columns, Type type, bool transposed) {
  return {{rows, columns}, type, transposed ? Memory::format_tag::ba : Memory::format_tag::ab};
}

}  // namespace

struct Products::Impl {
  struct Entry {
    dnnl::matmul primitive;
    Memory a, b, c, other;
    std::unordered_map<int, Memory> arguments;
  };

  Entry make(const Product& p) {
    const Memory::desc a = matrix(p.m, p.k, p.in, p.a_transposed);
    const Memory::desc b = matrix(p.k, p.n, p.in, p.b_transposed);
    const Memory::desc c = matrix(p.m, p.n, p.out, false);
    dnnl::post_ops after;
    if (p.after == After::kAddToResult) after.append_sum(1.0f);
    if (p.after == After::kAddOther) after.append_binary(dnnl::algorithm::binary_add, c);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine);
    Entry entry{dnnl::matmul(description),  Memory(a, engine, nullptr), Memory(b, engine, nullptr),
                Memory(c, engine, nullptr), Memory(c, engine, nullptr), {}};
    entry.arguments = {
        {DNNL_ARG_SRC, entry.a}, {DNNL_ARG_WEIGHTS, entry.b}, {DNNL_ARG_DST, entry.c}};
    if (p.after == After::kAddOther)
      entry.arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = entry.other;
    return entry;
  }

  void run(const Product& p, const void* a, const void* b, void* c, const void* other = nullptr) {
    if (p.m == 0 || p.n == 0) return;
    if (p.in == Type::bf16 && !has_bf16) return run_widened(p, a, b, c, other);
    try {
      auto found = entries.find(p);
      if (found == entries.end()) found = entries.emplace(p, make(p)).first;
      Entry& entry = found->second;
      entry.a.set_data_handle(const_cast<void*>(a));
      entry.b.set_data_handle(const_cast<void*>(b));
      entry.c.set_data_handle(c);
      if (other) entry.other.set_data_handle(const_cast<void*>(other));
      entry.primitive.execute(stream, entry.arguments);
      stream.wait();
    } catch (const dnnl::error& error) {
      throw ResourceError(
          fmt::format("oneDNN cannot multiply [{}, {}] by [{}, {}]: {}", p.m, p.k, p.k, p.n,
                      error.what()),
          error.status == dnnl_out_of_memory ? "lower train.window or train.threads" : "");
    }
  }

  // On a CPU for which oneDNN has no bf16 products: the same ones on float copies.
  void run_widened(Product p, const void* a, const void* b, void* c, const void* other) {
    const auto widen = [](const void* from, int64_t count, std::vector<float>& to) {
      const bf16* values = static_cast<const bf16*>(from);
      to.resize(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) to[static_cast<size_t>(i)] = to_float(values[i]);
      return to.data();
    };
    const bool narrow = p.out == Type::bf16;
    const int64_t size = p.m * p.n;
    const float* wide_a = widen(a, p.m * p.k, wide[0]);
    const float* wide_b = widen(b, p.k * p.n, wide[1]);
    const void* wide_other = other && narrow ? widen(other, size, wide[2]) : other;
    float* result = narrow ? widen(c, size, wide[3]) : static_cast<float*>(c);
    p.in = p.out = Type::f32;
    run(p, wide_a, wide_b, result, wide_other);
    if (!narrow) return;
    for (int64_t i = 0; i < size; ++i) static_cast<bf16*>(c)[i] = to_bf16(result[i]);
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<Product, Entry, ProductHash> entries;
  bool has_bf16 = cpu_has(dnnl::cpu_isa::avx512_core);  // slow without bf16 instructions
  std::array<std::vector<float>, 4> wide;               // run_widened's copies
};

Products::Products() : impl_(std::make_unique<Impl>()) {}
Products::~Products() = default;

bool Products::has_fast_bf16() { return cpu_has(dnnl::cpu_isa::avx512_core_bf16); }

template <typename T, typename Y>
void Products::forward(const LinearShape& s, const T* x, const T* weight, Y* y, const Y* residual) {
  impl_->run({s.rows, s.out, s.in, false, true, kType<T>, kType<Y>,
              residual ? After::kAddOther : After::kNothing},
             x, weight, y, residual);
}

template <typename T, typename X>
void Products::input_gradient(const LinearShape& s, const T* dy, const T* weight, X* dx,
                              bool accumulate) {
  impl_->run({s.rows, s.in, s.out, false, false, kType<T>, kType<X>,
              accumulate ? After::kAddToResult : After::kNothing},
             dy, weight, dx);
}

template <typename T>
void Products::weight_gradient(const LinearShape& s, const T* dy, const T* x, float* dweight,
                               bool accumulate) {
  impl_->run({s.out, s.in, s.rows, true, false, kType<T>, Type::f32,
              accumulate ? After::kAddToResult : After::kNothing},
             dy, x, dweight);
}

#define TAPER_PRODUCTS(T, Y)                                                                   \
  template void Products::forward<T, Y>(const LinearShape&, const T*, const T*, Y*, const Y*); \
  template void Products::input_gradient<T, Y>(const LinearShape&, const T*, const T*, Y*, bool);
TAPER_PRODUCTS(float, float)
TAPER_PRODUCTS(bf16, float)
TAPER_PRODUCTS(bf16, bf16)
#undef TAPER_PRODUCTS
template void Products::weight_gradient<float>(const LinearShape&, const float*, const float*,
                                               float*, bool);
template void Products::weight_gradient<bf16>(const LinearShape&, const bf16*, const bf16*, float*,
                                              bool);

}  // namespace taper
