#include "core/denormals.h"

#include <pmmintrin.h>
#include <xmmintrin.h>

namespace taper {

void flush_denormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}

}  // namespace taper
