// Ctrl-C and SIGTERM as a flag. Long loops ask interrupted() at safe points, finish what must be
// saved and throw Interrupted. A second signal ends the process at once.
#pragma once

namespace taper {

void install_interrupt_handler();
bool interrupted();
void throw_if_interrupted();  // throws Interrupted("interrupted")

}  // namespace taper
