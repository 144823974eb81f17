// The manual page, made from the command line itself.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_tree.h"

namespace taper {

// A page of section 1 in roff's macros man(7): name, synopsis, every command with its arguments,
// options and footer, and the sections of the root's footer. A footer is lines of text; a line at
// the margin that ends with a colon is the heading of the indented lines below it.
std::string manual_page(const CommandInfo& root, std::string_view version);

}  // namespace taper
