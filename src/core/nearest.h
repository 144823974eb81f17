// "Did you mean": the known name closest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace taper {

// The candidate with the fewest insertions, deletions, replacements and swaps of neighbours away
// from `name` (the first one of equals); empty when none is closer than a third of the name's
// length.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace taper
