// SwiGLU over all rows of a batch, split over a team (kernels/swiglu.h).
#pragma once

#include "kernels/swiglu.h"
#include "ops/context.h"

namespace taper {

// Rows of a split: few, since a row is wide.
inline constexpr int64_t kMlpRows = 32;

template <typename T>
void swiglu_forward(const OpContext& context, int64_t rows, int64_t ffn_width, const T* gate_up,
                    T* hidden) {
  const OpTimer time(context, OpKind::kMlp, Direction::kForward);
  context.team.run_blocks(rows, kMlpRows, [&](int64_t, Range range) {
    swiglu_forward_rows<T>(range, ffn_width, gate_up, hidden);
  });
}

// d(gate_up) from dhidden; `hidden` gets the forward's output again.
template <typename T>
void swiglu_backward(const OpContext& context, int64_t rows, int64_t ffn_width, const T* gate_up,
                     const T* dhidden, T* dgate_up, T* hidden) {
  const OpTimer time(context, OpKind::kMlp, Direction::kBackward);
  context.team.run_blocks(rows, kMlpRows, [&](int64_t, Range range) {
    swiglu_backward_rows<T>(range, ffn_width, gate_up, dhidden, dgate_up, hidden);
  });
}

}  // namespace taper
