// Models in the v0 format of llama2.c: little-endian, no magic number.
//
//   7 int32   dim, hidden, layers, heads, kv heads, vocabulary (negative: untied head), context
//   fp32      embedding; of all layers, stacked: attention norms, q, k, v, o, feed-forward norms,
//             w1 (gate), w2 (down), w3 (up); final norm; two rotary tables [context, K / 2] that
//             nothing needs; the head when it is untied
//
// Rotary pairs are adjacent rows there (2i, 2i+1) and halves of the head here (i, i + K/2), so the
// rows of q and k are permuted, each with its own number of heads. The format leaves out norm eps
// (1e-5), rotary base (10000), BOS (1) and EOS (2): they are constants of the program it belongs
// to.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "model/config.h"
#include "model/tensor_set.h"

namespace taper {

struct Llama2cModel {
  ModelConfig config;
  TensorSet tensors;  // Hugging Face names and layout
};

// Reads the bytes of a whole file. FormatError, starting with `what`, when the header is
// implausible or the file is not exactly as long as the header says.
Llama2cModel read_llama2c(std::span<const std::byte> bytes, const std::string& what);

}  // namespace taper
