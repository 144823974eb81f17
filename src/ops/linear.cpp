#include "ops/linear.h"

#include <array>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "ops/onednn.h"

namespace taper {
namespace {

using onednn::After;
using onednn::Product;
using onednn::Type;

template <typename T>
constexpr Type kType = std::is_same_v<T, bf16> ? Type::kBF16 : Type::kFloat;

// Rows that are worth a thread of their own.
constexpr int64_t kGrain = 16;

struct ProductHash {
  size_t operator()(const Product& p) const {
    size_t hash = 0;
    for (const int64_t part :
         {p.m, p.n, p.k, p.a_rows, p.a_columns, p.b_rows, p.b_columns, p.c_rows,
          static_cast<int64_t>(p.in), static_cast<int64_t>(p.out), static_cast<int64_t>(p.after)})
      hash = (hash ^ static_cast<size_t>(part)) * 1099511628211ull;
    return hash;
  }
};

// C = A B (+ ...) in double, element by element: what the others are measured against.
void multiply_plainly(const Product& p, const double* a, const double* b, double* c,
                      const double* other) {
  for (int64_t row = 0; row < p.m; ++row) {
    double* to = c + row * p.c_rows;
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += a[row * p.a_rows + k * p.a_columns] * b[k * p.b_rows + n * p.b_columns];
      if (p.after == After::kAddToResult) sum += to[n];
      if (p.after == After::kAddOther) sum += other[row * p.c_rows + n];
      to[n] = sum;
    }
  }
}

}  // namespace

struct LinearOp::Impl {
  // What one thread has prepared.
  struct Part {
    std::unordered_map<Product, onednn::Matmul, ProductHash> products;
    std::array<std::vector<float>, 4> wide;  // run_widened's copies
  };

  explicit Impl(ThreadPool& threads) : team(threads), parts(static_cast<size_t>(threads.size())) {}

  // Splits the rows of A and C over the team.
  template <typename T, typename Y>
  void run(const Product& whole, const T* a, const T* b, Y* c, const Y* other) {
    if (whole.m == 0 || whole.n == 0) return;
    team.run(whole.m, kGrain, [&](Range rows, int part) {
      Product p = whole;
      p.m = rows.size();
      const T* from = a + rows.begin * p.a_rows;
      Y* to = c + rows.begin * p.c_rows;
      const Y* beside = other ? other + rows.begin * p.c_rows : nullptr;
      if constexpr (std::is_same_v<T, double>)
        multiply_plainly(p, from, b, to, beside);
      else
        run_part(p, from, b, to, beside, parts[static_cast<size_t>(part)]);
    });
  }

  void run_part(const Product& p, const void* a, const void* b, void* c, const void* other,
                Part& part) {
    if (p.in == Type::kBF16 && !onednn::has_bf16()) return run_widened(p, a, b, c, other, part);
    auto found = part.products.find(p);
    if (found == part.products.end()) found = part.products.try_emplace(p, p).first;
    found->second.run(a, b, c, other);
  }

  // On a CPU for which oneDNN has no bf16 products: the same ones on float copies.
  void run_widened(Product p, const void* a, const void* b, void* c, const void* other,
                   Part& part) {
    const auto widen = [](const void* from, int64_t rows, int64_t columns, int64_t row_stride,
                          int64_t column_stride, std::vector<float>& to) {
      const bf16* values = static_cast<const bf16*>(from);
      to.resize(static_cast<size_t>(rows * columns));
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          to[static_cast<size_t>(i * columns + j)] =
              to_float(values[i * row_stride + j * column_stride]);
      return to.data();
    };
    const bool narrow = p.out == Type::kBF16;
    const float* wide_a = widen(a, p.m, p.k, p.a_rows, p.a_columns, part.wide[0]);
    const float* wide_b = widen(b, p.k, p.n, p.b_rows, p.b_columns, part.wide[1]);
    const void* wide_other =
        other && narrow ? widen(other, p.m, p.n, p.c_rows, 1, part.wide[2]) : other;
    float* result = narrow ? widen(c, p.m, p.n, p.c_rows, 1, part.wide[3]) : static_cast<float*>(c);
    const int64_t c_rows = p.c_rows;
    p.in = p.out = Type::kFloat;
    p.a_rows = p.k;
    p.b_rows = p.n;
    p.a_columns = p.b_columns = 1;
    if (narrow) p.c_rows = p.n;
    run_part(p, wide_a, wide_b, result, wide_other, part);
    if (!narrow) return;
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j)
        static_cast<bf16*>(c)[i * c_rows + j] = to_bf16(result[i * p.n + j]);
  }

  ThreadPool& team;
  std::vector<Part> parts;
};

LinearOp::LinearOp(ThreadPool& team) : impl_(std::make_unique<Impl>(team)) {}
LinearOp::~LinearOp() = default;

template <typename T, typename Y>
void LinearOp::forward(const LinearShape& s, const T* x, const T* weight, Y* y, const Y* residual) {
  impl_->run<T, Y>({s.rows, s.out, s.in, s.in, 1, 1, s.in, s.out, kType<T>, kType<Y>,
                    residual ? After::kAddOther : After::kNothing},
                   x, weight, y, residual);
}

template <typename T, typename X>
void LinearOp::input_gradient(const LinearShape& s, const T* dy, const T* weight, X* dx,
                              bool accumulate) {
  impl_->run<T, X>({s.rows, s.in, s.out, s.out, 1, s.in, 1, s.in, kType<T>, kType<X>,
                    accumulate ? After::kAddToResult : After::kNothing},
                   dy, weight, dx, nullptr);
}

template <typename T, typename R>
void LinearOp::weight_gradient(const LinearShape& s, const T* dy, const T* x, R* dweight) {
  impl_->run<T, R>(
      {s.out, s.in, s.rows, 1, s.out, s.in, 1, s.in, kType<T>, kType<R>, After::kAddToResult}, dy,
      x, dweight, nullptr);
}

#define TAPER_LINEAR(T, Y)                                                                     \
  template void LinearOp::forward<T, Y>(const LinearShape&, const T*, const T*, Y*, const Y*); \
  template void LinearOp::input_gradient<T, Y>(const LinearShape&, const T*, const T*, Y*, bool);
TAPER_LINEAR(float, float)
TAPER_LINEAR(bf16, float)
TAPER_LINEAR(bf16, bf16)
TAPER_LINEAR(double, double)
#undef TAPER_LINEAR
template void LinearOp::weight_gradient<float>(const LinearShape&, const float*, const float*,
                                               float*);
template void LinearOp::weight_gradient<bf16>(const LinearShape&, const bf16*, const bf16*, float*);
template void LinearOp::weight_gradient<double>(const LinearShape&, const double*, const double*,
                                                double*);

}  // namespace taper
