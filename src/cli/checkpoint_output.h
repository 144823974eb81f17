// What the commands that write a checkpoint folder share.
#pragma once

#include <filesystem>
#include <string>

namespace taper {

// ConfigError when `out` exists and may not be replaced: without --force never, with it only when
// it is a checkpoint or an empty folder, and never the folder that is read.
void require_writable_target(const std::filesystem::path& out, const std::filesystem::path& source,
                             bool force);

}  // namespace taper
