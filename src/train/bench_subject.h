// The model that `taper bench train` times: one set of weights for all norm states, so that the
// memory is that of one, and fixed random tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/bench_shape.h"
#include "train/data.h"
#include "train/optimizer.h"
#include "train/pass/training_pass.h"

namespace taper {

enum class BenchNorm { kPlain, kTaper, kSettled };  // gates 1, 1/2, 0

BenchNorm parse_bench_norm(const std::string& text);  // ConfigError
double gate_of(BenchNorm norm);

// The mean loss of a batch, and the L2 norm of every parameter's gradient, by tensor name.
struct StepNumbers {
  double loss = 0;
  std::map<std::string, double> gradient_norms;
};

// The largest differences, relative; a gradient's to the larger of the tensor's norm and a
// thousandth of the largest one.
struct StepDifference {
  double loss = 0, gradient = 0;
  std::string worst;  // the tensor

  void note(const std::string& tensor, double error);
};

// A tensor that only one of them has counts as infinitely far.
StepDifference difference(const StepNumbers& ours, const StepNumbers& theirs);

class BenchSubject {
 public:
  // Internal norms tapered, with scales and gamma~ unlike 1. `threads` must outlive this.
  BenchSubject(const BenchShape& shape, Activations activations, ThreadPool& threads);

  // Forward, backward, clipping and AdamW.
  void step(BenchNorm norm);
  // Of the whole batch, on the very path that step() takes, all lanes and both gradient buffers;
  // the weights stay.
  StepNumbers numbers(BenchNorm norm);
  // How far this pass is from the reference in double on the same weights, element by element, over
  // the first `tokens` of each of the first `windows` windows.
  StepDifference check(BenchNorm norm, int64_t windows, int64_t tokens);
  // Weights under their checkpoint names, `ids` and `targets`, for a peer.
  void write(const std::filesystem::path& path) const;

  void set_profile(OpProfile* profile) { pass_.set_profile(profile); }
  double optimizer_seconds() const { return optimizer_seconds_; }

 private:
  ThreadPool& threads_;
  ModelParameters<float> model_;
  TrainingPass<float> pass_;
  AdamW weights_, gamma_t_;
  Batch batch_;
  double optimizer_seconds_ = 0;
};

}  // namespace taper
