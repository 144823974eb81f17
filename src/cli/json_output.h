// What --json prints: one object on one line.
#pragma once

#include "core/json.h"

namespace taper {

// Numbers that are not finite become null, bytes that are not UTF-8 the replacement character.
void print_json(const Json& object);

}  // namespace taper
