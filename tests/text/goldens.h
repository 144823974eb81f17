// Golden files of tools/make_tokenizer_goldens.py.
#pragma once

#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/json.h"

namespace taper {

inline std::filesystem::path golden_path(const char* name) {
  return std::filesystem::path(TAPER_SOURCE_DIR) / "tests/text/goldens" / name;
}

inline Json golden_json(const char* name) { return parse_json(read_file(golden_path(name)), name); }

}  // namespace taper
