#include "ops/adamw.h"

#include <vector>

#include "core/error.h"

namespace taper {
namespace {

constexpr int64_t kBlock = 1 << 15;

}  // namespace

void adamw_update(ThreadPool& team, const AdamWOptions& options, std::span<float> values,
                  std::span<const float> gradients, std::span<float> first_moments,
                  std::span<float> second_moments) {
  TAPER_CHECK(values.size() == gradients.size() && values.size() == first_moments.size() &&
              values.size() == second_moments.size());
  team.run_blocks(std::ssize(values), kBlock, [&](int64_t, Range range) {
    adamw_range(options, range, values.data(), gradients.data(), first_moments.data(),
                second_moments.data());
  });
}

double sum_of_squares(ThreadPool& team, std::span<const float> values) {
  std::vector<double> parts(static_cast<size_t>(num_blocks(std::ssize(values), kBlock)));
  team.run_blocks(std::ssize(values), kBlock, [&](int64_t block, Range range) {
    parts[static_cast<size_t>(block)] =
        taper::sum_of_squares(values.data() + range.begin, range.size());
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace taper
