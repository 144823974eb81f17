// taper manual: the manual page taper(1).
#include "cli/command.h"
#include "cli/manual.h"
#include "cli/output.h"
#include "core/version.h"

namespace taper {

void setup_manual(CLI::App& parent) {
  CLI::App& app = add_command(parent, kHelp, "manual", "print the manual page, all commands on it");
  app.footer("Examples:\n  taper manual | man -l -");
  app.callback(
      [&parent] { print_text(manual_page(describe(parent, parent.get_name()), version())); });
}

}  // namespace taper
