// Parameters of a model in two flat buffers, values and gradients.
//
// A leaf is what the graph multiplies with: possibly several checkpoint tensors in one (q, k and v,
// stacked by rows). Leaves are views into `values`, their gradients views into `gradients`, so that
// clipping and the optimizer are single sweeps, and a checkpoint tensor is a contiguous slice.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model/checkpoint.h"

namespace taper {

class ParameterBuffer {
 public:
  struct Slice {
    TensorSpec spec;
    int64_t offset;  // in elements
    int64_t size() const;
  };

  // Declares a leaf made of `parts`, all with the same trailing sizes; returns its index.
  int64_t add(std::vector<TensorSpec> parts);
  // Allocates once every leaf is declared.
  void allocate(torch::Dtype dtype);

  torch::Tensor leaf(int64_t index) const { return leaves_.at(static_cast<size_t>(index)); }
  const torch::Tensor& values() const { return values_; }
  const torch::Tensor& gradients() const { return gradients_; }
  const std::vector<Slice>& slices() const { return slices_; }
  torch::Tensor value(const Slice& slice) const;  // a view with the slice's shape
  const Slice& slice_at(int64_t element) const;   // the slice that holds an element
  int64_t size() const { return size_; }

  // Checkpoint tensors over the values, fp32 buffers only.
  void append_views(std::vector<TensorView>& out) const;
  // Copies every slice from `file`; ShapeError naming a tensor of another shape.
  void load(const SafetensorsFile& file);

 private:
  struct Leaf {
    std::vector<int64_t> shape;
    int64_t offset;
  };
  std::vector<Leaf> layout_;
  std::vector<Slice> slices_;
  std::vector<torch::Tensor> leaves_;
  torch::Tensor values_, gradients_;
  int64_t size_ = 0;
};

}  // namespace taper
