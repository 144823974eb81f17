// An ordered list of tensors for a writer: views of memory that lives elsewhere (a mapped
// checkpoint) and tensors made here, whose values this object owns. Views stay valid while the set
// and their sources live.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace taper {

class TensorSet {
 public:
  void add_view(TensorView tensor) { views_.push_back(std::move(tensor)); }

  // Appends an fp32 tensor; the caller fills the values returned (product of shape, zero at first).
  std::span<float> add(std::string name, std::vector<int64_t> shape);

  std::span<const TensorView> views() const { return views_; }
  const TensorView& at(std::string_view name) const;  // std::logic_error when absent
  int64_t num_bytes() const;

 private:
  std::deque<std::vector<float>> owned_;
  std::vector<TensorView> views_;
};

}  // namespace taper
