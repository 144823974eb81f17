#include "core/version.h"

namespace taper {

std::string_view version() { return TAPER_VERSION; }

}  // namespace taper
