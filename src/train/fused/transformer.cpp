#include "train/fused/transformer.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>

#include "core/aligned_memory.h"
#include "kernels/scaled_weight.h"
#include "train/fused/blocks.h"
#include "train/fused/operands.h"
#include "train/fused/pass.h"

namespace taper {

// Where lanes work: the gradients of the first are the caller's, those of the others are added to
// them.
struct FusedTransformer::Lane {
  std::unique_ptr<Pass> pass;
  AlignedMemory gradients;          // of lanes after the first
  AlignedMemory operand_gradients;  // of weights that carry a norm
  FusedParameters parameters;
  std::vector<TaperNormSums> norm_sums;
  PassSums sums;
};

FusedTransformer::FusedTransformer(const ModelConfig& config, Activations activations)
    : config_(config),
      activations_(activations),
      operands_(std::make_unique<Operands>(config, activations)) {}

FusedTransformer::~FusedTransformer() = default;

namespace {

// Tokens that go through all layers together: few, so that they stay in a core's cache.
constexpr int64_t kMicroRows = 512;
// Gradients of the lanes beyond the first, in bytes: larger models split each op over the threads.
constexpr int64_t kMaxLaneGradients = int64_t{1} << 30;

struct Split {
  int lanes = 1;
  int64_t windows = 1;  // of a micro-batch
};

// Each thread a lane of its own where there are windows and memory enough, else one lane for all
// threads.
Split split_of(int64_t batch, int64_t time, int threads, int64_t parameters) {
  Split split;
  const int64_t extra = (threads - 1) * parameters * static_cast<int64_t>(sizeof(float));
  if (batch >= threads && extra <= kMaxLaneGradients) split.lanes = threads;
  split.windows = std::max<int64_t>(1, kMicroRows * threads / split.lanes / time);
  split.windows = std::min(split.windows, (batch + split.lanes - 1) / split.lanes);
  return split;
}

template <class Visit>
void for_each_norm(FusedParameters& parameters, const Visit& visit) {
  for (FusedBlock& block : parameters.blocks) {
    visit(block.attention_norm);
    visit(block.ffn_norm);
  }
  visit(parameters.final_norm);
}

template <class Visit>
void for_each_leaf(FusedParameters& parameters, const Visit& visit) {
  visit(parameters.embedding);
  visit(parameters.head);
  for (FusedBlock& block : parameters.blocks)
    for (FusedLeaf* leaf : {&block.qkv, &block.out, &block.gate_up, &block.down}) visit(*leaf);
  for_each_norm(parameters, [&](FusedNorm& norm) {
    visit(norm.gamma);
    visit(norm.gamma_t);
  });
}

// The caller's parameters, with gradients at `own` instead of in the caller's buffers.
FusedParameters with_gradients_at(float* own, FusedParameters parameters) {
  const std::span<float> first = parameters.gradients, second = parameters.taper_gradients;
  for_each_leaf(parameters, [&](FusedLeaf& leaf) {
    if (!leaf.gradient) return;
    const auto offset = leaf.gradient - first.data();
    const bool in_first = offset >= 0 && offset < std::ssize(first);
    leaf.gradient =
        in_first ? own + offset : own + std::ssize(first) + (leaf.gradient - second.data());
  });
  return parameters;
}

void add(const PassSums& from, PassSums& to) {
  to.loss += from.loss;
  to.logit_norm += from.logit_norm;
  to.count += from.count;
  to.anchor += from.anchor;
  to.scale += from.scale;
  to.scale_count += from.scale_count;
}

void add(const TaperNormSums& from, TaperNormSums& to) {
  to.numerator += from.numerator;
  to.denominator += from.denominator;
  to.scale += from.scale;
  to.rows += from.rows;
}

// `count` floats at `memory`, zeros when they are new.
float* floats(int64_t count, AlignedMemory& memory) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  if (bytes > memory.size()) memory = AlignedMemory(bytes);
  return reinterpret_cast<float*>(memory.data());
}

// to += from, from = 0
void move_gradients(float* from, std::span<float> to) {
  constexpr int64_t kBlock = 1 << 14;
  parallel_blocks(std::ssize(to), kBlock, [&](int64_t, Range range) {
    const int64_t count = range.end - range.begin;
    add_row(from + range.begin, count, to.data() + range.begin);
    std::memset(from + range.begin, 0, sizeof(float) * static_cast<size_t>(count));
  });
}

}  // namespace

void FusedTransformer::prepare(const FusedParameters& made, const PassOptions& options,
                               size_t lanes) {
  while (lanes_.size() < lanes) {
    Lane lane;
    lane.pass = make_pass(config_, activations_);
    lanes_.push_back(std::move(lane));
  }
  const int64_t own = std::ssize(made.gradients) + std::ssize(made.taper_gradients);
  for (size_t i = 0; i < lanes; ++i) {
    Lane& lane = lanes_[i];
    lane.sums = {};
    lane.parameters = made;
    lane.pass->profile = i == 0 ? profile_ : nullptr;
    if (options.backward) {
      if (i > 0) lane.parameters = with_gradients_at(floats(own, lane.gradients), lane.parameters);
      operands_->redirect(floats(operands_->gradient_size(), lane.operand_gradients),
                          lane.parameters);
    }
    lane.norm_sums.assign(2 * made.blocks.size() + 1, {});
    size_t norm = 0;
    for_each_norm(lane.parameters, [&](FusedNorm& at) {
      if (at.sums) at.sums = &lane.norm_sums[norm];
      ++norm;
    });
  }
}

PassSums FusedTransformer::run(const FusedParameters& parameters, const FusedBatch& batch,
                               const PassOptions& options) {
  const int threads = omp_get_max_threads();
  const int64_t size = std::ssize(parameters.gradients) + std::ssize(parameters.taper_gradients);
  const Split split = split_of(batch.batch, batch.time, threads, size);
  const auto lanes = static_cast<size_t>(split.lanes);
  {
    const PassTimer time(profile_, PassOp::kOperands, false);
    prepare(operands_->make(parameters, options.gate), options, lanes);
  }
  const auto run_lane = [&](int64_t i) {
    Lane& lane = lanes_[static_cast<size_t>(i)];
    const int64_t end = batch.batch * (i + 1) / split.lanes;
    for (int64_t begin = batch.batch * i / split.lanes; begin < end; begin += split.windows) {
      const int64_t at = begin * batch.time;
      const FusedBatch part{batch.ids + at, batch.targets + at,
                            std::min(split.windows, end - begin), batch.time};
      add(lane.pass->run(lane.parameters, part, options), lane.sums);
    }
  };
  if (lanes == 1) {
    run_lane(0);
  } else {
    std::exception_ptr failure;
#pragma omp parallel num_threads(split.lanes)
    {
      omp_set_num_threads(1);  // what a lane starts stays in its thread
      try {
        // Every lane runs, also when the system grants fewer threads.
        for (int i = omp_get_thread_num(); i < split.lanes; i += omp_get_num_threads()) run_lane(i);
      } catch (...) {
#pragma omp critical
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }
  return gather(parameters, options, lanes);
}

// The sums of all lanes; their gradients go into those of `parameters`.
PassSums FusedTransformer::gather(const FusedParameters& parameters, const PassOptions& options,
                                  size_t lanes) {
  PassSums sums;
  for (size_t i = 0; i < lanes; ++i) {
    add(lanes_[i].sums, sums);
    size_t norm = 0;
    FusedParameters to = parameters;
    for_each_norm(to, [&](FusedNorm& at) {
      if (at.sums) add(lanes_[i].norm_sums[norm], *at.sums);
      ++norm;
    });
  }
  if (!options.backward) return sums;

  {
    const PassTimer time(profile_, PassOp::kGather, true);
    const std::vector<Range> idle = operands_->idle_gradients(parameters);
    const auto size = std::ssize(parameters.gradients);
    for (size_t i = 1; i < lanes; ++i) {
      auto* own = reinterpret_cast<float*>(lanes_[i].gradients.data());
      int64_t begin = 0;
      const auto move_up_to = [&](int64_t end) {
        move_gradients(own + begin, parameters.gradients.subspan(static_cast<size_t>(begin),
                                                                 static_cast<size_t>(end - begin)));
      };
      for (const Range& range : idle) {
        move_up_to(range.begin);
        begin = range.end;
      }
      move_up_to(size);
      move_gradients(own + size, parameters.taper_gradients);
    }
  }
  const PassTimer time(profile_, PassOp::kOperands, true);
  std::vector<float*> of_operands;
  for (size_t i = 0; i < lanes; ++i)
    of_operands.push_back(reinterpret_cast<float*>(lanes_[i].operand_gradients.data()));
  operands_->backward(of_operands, parameters);
  return sums;
}

int64_t FusedTransformer::memory_bytes(const ModelConfig& config, Activations activations,
                                       bool tapered, int64_t batch, int64_t time, int threads) {
  const int64_t parameters = config.num_parameters();
  const Split split = split_of(batch, time, threads, parameters);
  return split.lanes *
             (pass_memory_bytes(config, activations, split.windows, time, threads / split.lanes) +
              Operands::gradient_bytes(config, tapered)) +
         Operands::memory_bytes(config, activations, tapered) +
         (split.lanes - 1) * parameters * static_cast<int64_t>(sizeof(float));
}

}  // namespace taper
