// An ordered list of tensors: views of memory that lives elsewhere (a mapped checkpoint) and
// tensors made here, whose values this object owns. Views stay valid while the set and their
// sources live; keep() makes the set hold a source itself. Not copyable: the views of a copy would
// lie in the original.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace taper {

class TensorSet {
 public:
  TensorSet() = default;
  TensorSet(TensorSet&&) = default;
  TensorSet& operator=(TensorSet&&) = default;
  TensorSet(const TensorSet&) = delete;
  TensorSet& operator=(const TensorSet&) = delete;

  void add_view(TensorView tensor) { views_.push_back(std::move(tensor)); }

  // Appends an fp32 tensor; the caller fills the values returned (product of shape, zero at first).
  std::span<float> add(std::string name, std::vector<int64_t> shape);

  // `source`, in whose memory views lie, lives at least as long as this set.
  void keep(std::shared_ptr<const void> source) { sources_.push_back(std::move(source)); }

  std::span<const TensorView> views() const { return views_; }
  const TensorView* find(std::string_view name) const;  // null when absent
  const TensorView& at(std::string_view name) const;    // std::logic_error when absent
  int64_t num_bytes() const;

 private:
  std::vector<std::shared_ptr<const void>> sources_;
  std::deque<std::vector<float>> owned_;
  std::vector<TensorView> views_;
};

}  // namespace taper
