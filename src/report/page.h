// The whole report: one HTML page with everything inside it, no scripts, light and dark.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/run.h"
#include "report/summary.h"

namespace taper {

// `runs` is not empty; the first is the reference that the others are compared with.
std::string render_page(const std::string& title, const std::vector<Run>& runs,
                        const std::optional<Summary>& summary);

}  // namespace taper
