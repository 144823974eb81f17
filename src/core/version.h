#pragma once

#include <string_view>

namespace taper {

std::string_view version();  // "0.1.0"

}  // namespace taper
