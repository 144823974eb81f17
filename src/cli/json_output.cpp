#include "cli/json_output.h"

#include "cli/output.h"
#include "core/error.h"

namespace taper {

void print_json(const Json& object) {
  TAPER_CHECK(object.is_object());
  print_text(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace taper
