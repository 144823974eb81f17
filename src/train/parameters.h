// The parameters of a model in training, in flat buffers.
//
// One layout serves values, gradients and the optimizer's moments: first every weight, in execution
// order, then gamma~ of every norm in scope, which enters the optimizer later. Matrices that are
// multiplied together (q, k, v; gate, up) are neighbours, so that one product does them; a
// checkpoint tensor is a contiguous slice; clipping and updating are single sweeps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/aligned_memory.h"
#include "core/parallel.h"
#include "core/range.h"
#include "model/architecture.h"
#include "model/checkpoint.h"

namespace taper {

struct ParameterSlice {
  std::string name;  // of the checkpoint's tensor
  Place place;
  std::vector<int64_t> shape;
  Range range;  // elements
};

class ParameterLayout {
 public:
  // Norms named in `folded` have no parameters.
  ParameterLayout(const Architecture& architecture, TaperScope scope,
                  const std::vector<std::string>& folded);

  struct Norm {
    NormSite site;
    bool folded = false, in_scope = false;
    int64_t gamma = -1, gamma_t = -1;  // first elements; -1: there is none
  };

  const std::vector<ParameterSlice>& slices() const { return slices_; }
  const ParameterSlice& slice_at(int64_t element) const;  // that holds an element
  const std::vector<Norm>& norms() const { return norms_; }
  int64_t offset(Place place) const;  // of a weight
  Range weights() const { return {0, weights_end_}; }
  Range gamma_t() const { return {gamma_t_begin_, size_}; }
  int64_t size() const { return size_; }

 private:
  std::vector<ParameterSlice> slices_;
  std::vector<Norm> norms_;
  int64_t weights_end_ = 0, gamma_t_begin_ = 0, size_ = 0;
};

template <typename R>  // float, or double for the reference
class ModelParameters {
 public:
  // Weights are zero until initialize() or load().
  ModelParameters(const ModelConfig& config, TaperScope scope,
                  const std::vector<std::string>& folded = {});

  // Normal(0, std) matrices, the two projections into the residual stream divided by sqrt(2 layers)
  // when `scale_residual`; norm weights 1. Each tensor has its own random stream, named by (seed,
  // name).
  void initialize(double std, bool scale_residual, uint64_t seed);
  // Weights of a checkpoint; c and gamma~ too for norms it holds tapered. ShapeError naming a
  // tensor of another shape.
  void load(const Checkpoint& checkpoint);
  // Freezes the scales, norm by norm (those out of scope are not read), and sets gamma~ := gamma
  // (method.md, "at the taper start, once").
  void begin_taper(std::span<const double> scales);

  const Architecture& architecture() const { return architecture_; }
  const ModelConfig& config() const { return architecture_.config(); }
  const ParameterLayout& layout() const { return layout_; }
  std::span<R> values() const { return floats(values_); }
  std::span<R> gradients() const { return floats(gradients_); }
  void clear_gradients(ThreadPool& team);

  bool taper_begun() const { return taper_begun_; }
  NormState norm_state(int norm) const;
  R scale(int norm) const { return scales_.at(static_cast<size_t>(norm)); }  // c
  std::vector<std::string> tapered_names() const;
  // Checkpoint tensors over the values as they stand (valid while this lives).
  std::vector<TensorView> tensor_views() const;

 private:
  std::span<R> floats(const AlignedMemory& memory) const {
    return {reinterpret_cast<R*>(memory.data()), static_cast<size_t>(layout_.size())};
  }

  Architecture architecture_;
  ParameterLayout layout_;
  AlignedMemory values_, gradients_;
  std::vector<R> scales_;  // norm by norm
  bool taper_begun_ = false;
};

}  // namespace taper
