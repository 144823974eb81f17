#include "cli/checkpoint_output.h"

#include "core/error.h"

namespace taper {

namespace fs = std::filesystem;

void require_writable_target(const fs::path& out, const fs::path& source, bool force) {
  if (!fs::exists(out)) return;
  if (!force) {
    throw ConfigError(out.string() + ": already exists",
                      "choose another name, or replace it with --force");
  }
  if (fs::exists(source) && fs::equivalent(out, source))
    throw ConfigError(out.string() + ": is the folder that is read", "choose another name");
  const bool replaceable =
      fs::is_directory(out) && (fs::exists(out / "config.json") || fs::is_empty(out));
  if (!replaceable) {
    throw ConfigError(out.string() + ": is not a checkpoint, so --force does not replace it",
                      "choose another name, or remove it yourself");
  }
}

}  // namespace taper
