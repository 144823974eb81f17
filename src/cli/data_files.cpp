#include "cli/data_files.h"

#include <fmt/format.h>

#include <system_error>

#include "core/error.h"

namespace taper {

namespace fs = std::filesystem;

fs::path current_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw ResourceError(fmt::format("/proc/self/exe: {}", error.message()),
                        "taper finds its own files through /proc: mount it");
  return program;
}

fs::path data_file(const fs::path& name, const fs::path& program) {
  const fs::path folder = program.parent_path();
  const fs::path installed = (folder / "../share/taper").lexically_normal();
  const fs::path source = (folder / "../../..").lexically_normal();
  for (const fs::path& place : {fs::path(), installed, source})
    if (fs::is_regular_file(place / name)) return place / name;
  throw ConfigError(fmt::format("{}: not in the working directory, {} or {}", name.string(),
                                installed.string(), source.string()),
                    "run taper where the file is, or install it again: make install");
}

}  // namespace taper
