#include "train/pass/training_pass.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/folded_weight.h"

namespace taper {

namespace {

// Tokens that go through all layers together, for each thread of a lane: few, so that they stay in
// its cache.
constexpr int64_t kMicroRows = 512;
// Gradients of the lanes beyond the first, in bytes.
constexpr int64_t kMaxLaneGradients = int64_t{1} << 30;

struct Split {
  int lanes = 1;
  int team = 1;         // threads of a lane
  int64_t windows = 1;  // of a micro-batch
};

// As many lanes as there are threads, windows and memory for; of those numbers the largest that
// leaves the fewest threads without work.
Split split_of(int64_t batch, int64_t time, int threads, int64_t gradient_bytes) {
  const int64_t memory = 1 + kMaxLaneGradients / std::max<int64_t>(gradient_bytes, 1);
  const auto most = static_cast<int>(std::min({int64_t{threads}, batch, memory}));
  Split split;
  for (int lanes = most; lanes >= 1; --lanes)
    if (lanes * (threads / lanes) > (split.lanes * split.team)) {
      split.lanes = lanes;
      split.team = threads / lanes;
    }
  split.windows = std::max<int64_t>(1, kMicroRows * split.team / time);
  split.windows = std::min(split.windows, (batch + split.lanes - 1) / split.lanes);
  return split;
}

// `count` elements at `memory`, zeros when they are new.
template <typename R>
R* elements(int64_t count, AlignedMemory& memory) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(R));
  if (bytes > memory.size()) memory = AlignedMemory(bytes);
  return reinterpret_cast<R*>(memory.data());
}

}  // namespace

// Where a lane works. The gradients of the first are the parameters' own; those of the others are
// added to them.
template <typename R>
struct TrainingPass<R>::LaneState {
  std::unique_ptr<ThreadPool> team;  // none: the pass's own threads
  int team_size = 0;
  std::unique_ptr<Lane<R>> lane;
  AlignedMemory gradients;         // of lanes after the first, in the parameters' layout
  AlignedMemory folded_gradients;  // of operands that a norm is folded into
  std::vector<TaperNormSums> norm_sums;
  ModelWeights<R> weights;
  PassSums sums;

  R* own_gradients() const { return reinterpret_cast<R*>(gradients.data()); }
  R* own_folded_gradients() const { return reinterpret_cast<R*>(folded_gradients.data()); }
};

template <typename R>
TrainingPass<R>::TrainingPass(ModelParameters<R>& parameters, Activations activations,
                              ThreadPool& threads)
    : parameters_(parameters),
      activations_(activations),
      threads_(threads),
      operands_(parameters, activations),
      rope_(0, parameters.config().head_width, parameters.config().rope_theta) {}

template <typename R>
TrainingPass<R>::~TrainingPass() = default;

template <typename R>
PassSums TrainingPass<R>::run(const BatchView& batch, const PassOptions& options) {
  const Split split =
      split_of(batch.batch, batch.time, threads_.size(), parameters_.gradients().size_bytes());
  {
    const OpTimer time(profile_, OpKind::kFold, Direction::kForward);
    operands_.make(threads_, options.gate);
    prepare(split.lanes, split.team, options);
    if (rope_.positions() < batch.time) {
      const ModelConfig& config = parameters_.config();
      rope_ = RopeTable<R>(batch.time, config.head_width, config.rope_theta);
    }
  }
  const auto run_lane = [&](int64_t i) {
    LaneState& state = lanes_[static_cast<size_t>(i)];
    const int64_t end = batch.batch * (i + 1) / split.lanes;
    for (int64_t begin = batch.batch * i / split.lanes; begin < end; begin += split.windows) {
      const int64_t at = begin * batch.time;
      const BatchView part{batch.ids + at, batch.targets + at, std::min(split.windows, end - begin),
                           batch.time};
      state.sums += state.lane->run(state.weights, rope_, part, options);
    }
  };
  if (split.lanes == 1)
    run_lane(0);  // its team is the threads themselves
  else
    threads_.run(split.lanes, 1, [&](Range lanes) {
      for (int64_t i = lanes.begin; i < lanes.end; ++i) run_lane(i);
    });

  PassSums sums;
  for (int i = 0; i < split.lanes; ++i) {
    LaneState& state = lanes_[static_cast<size_t>(i)];
    state.sums.norms = state.norm_sums;
    sums += state.sums;
  }
  if (options.backward) gather_gradients(split.lanes);
  return sums;
}

template <typename R>
void TrainingPass<R>::prepare(int lanes, int team, const PassOptions& options) {
  lanes_.resize(std::max(lanes_.size(), static_cast<size_t>(lanes)));
  for (int i = 0; i < lanes; ++i) {
    LaneState& state = lanes_[static_cast<size_t>(i)];
    if (!state.lane || state.team_size != team) {
      state.lane.reset();
      state.team = lanes == 1 ? nullptr : std::make_unique<ThreadPool>(team);
      state.team_size = team;
      state.lane =
          make_lane<R>(parameters_.config(), activations_, {state.team ? *state.team : threads_});
    }
    state.lane->set_profile(i == 0 ? profile_ : nullptr);
    state.sums = {};
    state.norm_sums.assign(options.calibrate ? parameters_.layout().norms().size() : 0, {});
    R* gradients = nullptr;
    R* folded_gradients = nullptr;
    if (options.backward) {
      gradients = i == 0 ? parameters_.gradients().data()
                         : elements<R>(parameters_.layout().size(), state.gradients);
      folded_gradients = elements<R>(operands_.folded_size(), state.folded_gradients);
    }
    state.weights = operands_.weights(gradients, folded_gradients,
                                      options.calibrate ? &state.norm_sums : nullptr);
  }
}

// The parameters' gradients += those of the other lanes and of folded operands, which become 0.
template <typename R>
void TrainingPass<R>::gather_gradients(int lanes) {
  {
    const OpTimer time(profile_, OpKind::kGather, Direction::kBackward);
    const std::vector<Range> idle = operands_.idle_gradients();
    R* to = parameters_.gradients().data();
    for (int i = 1; i < lanes; ++i) {
      R* from = lanes_[static_cast<size_t>(i)].own_gradients();
      const auto move = [&](Range part) {
        constexpr int64_t kBlock = 1 << 14;
        threads_.run_blocks(part.size(), kBlock, [&](int64_t, Range block) {
          const int64_t begin = part.begin + block.begin;
          add_row(from + begin, block.size(), to + begin);
          std::memset(from + begin, 0, sizeof(R) * static_cast<size_t>(block.size()));
        });
      };
      int64_t begin = 0;
      for (const Range& range : idle) {
        move({begin, range.begin});
        begin = range.end;
      }
      move({begin, parameters_.layout().size()});
    }
  }
  const OpTimer time(profile_, OpKind::kFold, Direction::kBackward);
  std::vector<R*> folded_gradients;
  folded_gradients.reserve(static_cast<size_t>(lanes));
  for (int i = 0; i < lanes; ++i)
    folded_gradients.push_back(lanes_[static_cast<size_t>(i)].own_folded_gradients());
  operands_.backward(threads_, folded_gradients);
}

template <typename R>
int64_t TrainingPass<R>::memory_bytes(const Architecture& architecture, Activations activations,
                                      bool tapers, int64_t batch, int64_t time, int threads) {
  const int64_t gradients = architecture.num_parameters() * static_cast<int64_t>(sizeof(R));
  const Split split = split_of(batch, time, threads, gradients);
  const ModelConfig& config = architecture.config();
  const int64_t rope = time * config.head_width * static_cast<int64_t>(sizeof(R));
  return split.lanes * (lane_memory_bytes<R>(config, activations, split.windows, time, split.team) +
                        Operands<R>::folded_bytes(architecture, tapers)) +
         Operands<R>::memory_bytes(architecture, activations, tapers) +
         (split.lanes - 1) * gradients + rope;
}

template class TrainingPass<float>;
template class TrainingPass<double>;

}  // namespace taper
