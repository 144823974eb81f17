#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/random.h"
#include "kernels/simd_targets.h"
#include "tolerances.h"

namespace taper {
namespace {

std::vector<float> random_values(Random& random, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

struct Problem {
  int64_t rows, depth, outputs;
  std::vector<float> x, w, y;

  Problem(int64_t rows_, int64_t depth_, int64_t outputs_, uint64_t seed)
      : rows(rows_), depth(depth_), outputs(outputs_) {
    Random random(seed);
    x = random_values(random, rows * depth);
    w = random_values(random, outputs * depth);
    y = random_values(random, rows * outputs);
  }

  MatmulArgs args(std::vector<float>& out, bool accumulate) const {
    return {.x = x.data(),
            .x_stride = depth,
            .w = w.data(),
            .w_stride = depth,
            .y = out.data(),
            .y_stride = outputs,
            .rows = rows,
            .depth = depth,
            .accumulate = accumulate};
  }

  // The specification, in double, and the size of the terms that its error is measured against.
  double reference(int64_t r, int64_t n, double* size) const {
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const double term = static_cast<double>(x[static_cast<size_t>(r * depth + k)]) *
                          static_cast<double>(w[static_cast<size_t>(n * depth + k)]);
      sum += term;
      *size += std::abs(term);
    }
    return sum;
  }
};

class MatmulShapes : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(MatmulShapes, AnyShape_MatchesTheFormula) {
  const auto [rows, depth, outputs] = GetParam();
  const Problem problem(rows, depth, outputs, 7);
  test::for_each_target([&] {
    for (const bool accumulate : {false, true}) {
      std::vector<float> y = problem.y;
      matmul_transposed(problem.args(y, accumulate), {0, problem.outputs});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < outputs; ++n) {
          const auto index = static_cast<size_t>(r * outputs + n);
          double size = 0;
          double expected = problem.reference(r, n, &size);
          if (accumulate) expected += problem.y[index];
          ASSERT_NEAR(y[index], expected, test::kProductTolerance * (size + 1))
              << "row " << r << " output " << n << " accumulate " << accumulate;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulShapes,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7, 13),
                                          testing::Values(1, 3, 16, 229, 541, 1100),
                                          testing::Values(1, 3, 8, 21)));

TEST(Matmul, RowAloneOrAmongOthers_SameBits) {
  for (const int64_t depth : {3, 64, 541, 1100}) {
    const Problem problem(14, depth, 21, 3);
    test::for_each_target([&] {
      std::vector<float> together(problem.y.size());
      matmul_transposed(problem.args(together, false), {0, problem.outputs});
      for (int64_t r = 0; r < problem.rows; ++r) {
        std::vector<float> alone(static_cast<size_t>(problem.outputs));
        MatmulArgs args = problem.args(alone, false);
        args.x += r * depth;
        args.rows = 1;
        matmul_transposed(args, {0, problem.outputs});
        EXPECT_EQ(std::memcmp(alone.data(), together.data() + r * problem.outputs,
                              alone.size() * sizeof(float)),
                  0)
            << "row " << r << " depth " << depth;
      }
    });
  }
}

TEST(Matmul, OutputsSplitIntoRanges_SameBitsAndNothingElseTouched) {
  const Problem problem(5, 229, 23, 5);
  std::vector<float> whole(problem.y.size());
  matmul_transposed(problem.args(whole, false), {0, 23});
  for (const int64_t cut : {0, 1, 5, 8, 22, 23}) {
    std::vector<float> parts(problem.y.size(), -1.0f);
    matmul_transposed(problem.args(parts, false), {0, cut});
    for (int64_t n = cut; n < 23; ++n) EXPECT_EQ(parts[static_cast<size_t>(n)], -1.0f);
    matmul_transposed(problem.args(parts, false), {cut, 23});
    EXPECT_EQ(parts, whole) << "cut at " << cut;
  }
}

TEST(Matmul, StridedOperands_ReadAndWriteOnlyTheirPart) {
  Random random(9);
  const int64_t rows = 4, depth = 19, outputs = 6;
  const auto x = random_values(random, rows * 30);
  const auto w = random_values(random, outputs * 25);
  std::vector<float> y(static_cast<size_t>(rows * 11), 5.0f);
  matmul_transposed({.x = x.data(),
                     .x_stride = 30,
                     .w = w.data(),
                     .w_stride = 25,
                     .y = y.data(),
                     .y_stride = 11,
                     .rows = rows,
                     .depth = depth,
                     .accumulate = false},
                    {0, outputs});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < 11; ++n) {
      double expected = n < outputs ? 0 : 5;
      for (int64_t k = 0; n < outputs && k < depth; ++k) {
        expected += static_cast<double>(x[static_cast<size_t>(r * 30 + k)]) *
                    static_cast<double>(w[static_cast<size_t>(n * 25 + k)]);
      }
      EXPECT_NEAR(y[static_cast<size_t>(r * 11 + n)], expected, 1e-5);
    }
  }
}

}  // namespace
}  // namespace taper
