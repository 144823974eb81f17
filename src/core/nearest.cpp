#include "core/nearest.h"

#include <algorithm>
#include <vector>

namespace taper {
namespace {

// Optimal string alignment distance, three rows at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(previous);
    previous.swap(current);
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
  }
  return current[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  size_t best = std::max<size_t>(name.size() / 3, 1) + 1;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : candidates) {
    const size_t found = distance(name, candidate);
    if (found < best) {
      best = found;
      nearest = &candidate;
    }
  }
  return nearest == nullptr ? "" : *nearest;
}

}  // namespace taper
