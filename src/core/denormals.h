// Denormal numbers: values below 1e-38, for which x86 processors take a hundred times longer.
#pragma once

namespace taper {

// Results that are denormal become 0, and denormal operands count as 0, in this thread and in those
// it starts from now on. The attention of a trained model makes them in plenty, and a sum that such
// a term could change does not exist here.
void flush_denormals();

}  // namespace taper
