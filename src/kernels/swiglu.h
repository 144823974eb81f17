// SwiGLU: y = silu(gate) * up, silu(x) = x / (1 + e^-x). gate_up is [rows, 2F] with the gate first,
// y [rows, F], contiguous. Arithmetic in Real<T>. Thread-safe over disjoint row ranges; no
// allocation.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace taper {

// T is float, bf16 or double.
template <typename T>
void swiglu_forward_rows(Range rows, int64_t ffn_width, const T* gate_up, T* y);

// d(gate_up) from dy, overwritten. With s = 1 / (1 + e^-gate):
//   dup = gate s dy,  dgate = up s (1 + gate (1 - s)) dy
// `y`, when given, gets the output of the forward pass again, so that nobody has to keep it.
template <typename T>
void swiglu_backward_rows(Range rows, int64_t ffn_width, const T* gate_up, const T* dy, T* dgate_up,
                          T* y = nullptr);

}  // namespace taper
