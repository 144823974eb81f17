#include "train/train_bench.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/nearest.h"
#include "core/random.h"
#include "core/timing.h"
#include "kernels/peak.h"
#include "text/tokenizer.h"
#include "train/config.h"
#include "train/fused/products.h"
#include "train/nn/transformer.h"
#include "train/optimizer.h"
#include "train/peer_process.h"

namespace taper {

namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  std::string name;
  ModelConfig model;
  int64_t batch = 16, window = 0;
};

Shape shape_of(std::string name, int64_t layers, int64_t width, int64_t heads, int64_t ffn_width,
               int64_t vocab, int64_t window) {
  Shape shape{std::move(name), {}, 16, window};
  shape.model.vocab_size = vocab;
  shape.model.width = width;
  shape.model.num_layers = layers;
  shape.model.num_heads = shape.model.num_kv_heads = heads;
  shape.model.head_width = width / heads;
  shape.model.ffn_width = ffn_width;
  shape.model.context = window;
  return shape;
}

std::vector<Shape> named_shapes() {
  return {shape_of("6l-d256", 6, 256, 8, 768, 4096, 256),
          shape_of("paper-1m", 8, 64, 16, 171, 10000, 512),
          shape_of("paper-3m", 8, 128, 16, 341, 10000, 512),
          shape_of("paper-9m", 8, 256, 16, 683, 10000, 512),
          shape_of("paper-30m", 8, 512, 16, 1365, 10000, 512)};
}

Shape find_shape(const std::string& text) {
  for (const Shape& shape : named_shapes())
    if (shape.name == text) return shape;
  if (!std::filesystem::exists(text))
    throw ConfigError(fmt::format("no shape and no configuration is called {}", text),
                      fmt::format("shapes: {}", fmt::join(train_bench_shapes(), ", ")));
  TrainConfig config;
  train_schema(config).load_file(text);
  resolve(config, text);
  const auto model = [&] {
    if (!config.init.from.empty()) return Checkpoint::open(config.init.from).config();
    return model_config(config, config.model.vocab_size
                                    ? config.model.vocab_size
                                    : load_tokenizer(config.data.tokenizer)->vocab_size());
  };
  Shape shape{text, model(), config.train.batch, config.train.window};
  if (shape.window == 0) shape.window = shape.model.context;
  return shape;
}

// Pairs of a query and a key that it sees, over all layers and heads: half of the window each.
double attention_pairs_per_token(const Shape& shape) {
  return 0.5 * static_cast<double>(shape.model.num_layers * shape.model.num_heads * shape.window);
}

double flops_per_token(const Shape& shape) {
  const ModelConfig& m = shape.model;
  const auto layer = static_cast<double>(m.width * (2 * m.q_width() + 2 * m.kv_width()) +
                                         3 * m.width * m.ffn_width);
  const auto layers = static_cast<double>(m.num_layers);
  const double weights = layers * layer + static_cast<double>(m.vocab_size * m.width);
  return 6 * weights + 12 * attention_pairs_per_token(shape) * static_cast<double>(m.head_width);
}

// Operations per second of all threads together.
double limit(int64_t (*run_rounds)(int64_t, float*), int64_t rounds) {
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    int64_t operations = 0;
    const auto start = Clock::now();
    std::vector<int64_t> parts(static_cast<size_t>(at::get_num_threads()));
    at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float sink = static_cast<float>(i);
        parts[static_cast<size_t>(i)] = run_rounds(rounds, &sink);
      }
    });
    for (const int64_t part : parts) operations += part;
    best = std::max(best, static_cast<double>(operations) / seconds_since(start));
  }
  return best;
}

double bf16_limit() {
  double best = 0;
  Products products;
  for (const int64_t size : {512, 1024, 2048}) {
    const auto count = static_cast<size_t>(size * size);
    const std::vector<bf16> a(count, to_bf16(0.5f)), b(count, to_bf16(0.25f));
    std::vector<bf16> c(count);
    for (int repeat = 0; repeat < 6; ++repeat) {
      const auto start = Clock::now();
      products.forward<bf16>({size, size, size}, a.data(), b.data(), c.data());
      best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) / seconds_since(start));
    }
  }
  return best;
}

// What the check took and gave back does not count.
void reset_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

double peak_memory_mb() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

enum class BenchNorm { kPlain, kTaper, kSettled };

BenchNorm parse_norm(const std::string& text) {
  if (text == "plain") return BenchNorm::kPlain;
  if (text == "taper") return BenchNorm::kTaper;
  if (text == "settled") return BenchNorm::kSettled;
  throw ConfigError(fmt::format("no norm state is called {}", text), "use plain, taper or settled");
}

// One model for all norm states, so that the memory is that of one.
class Subject {
 public:
  Subject(const Shape& shape, Activations activations)
      : shape_(shape),
        model_(shape.model, TaperScope::kInternal),
        pass_(shape.model, activations),
        weights_(model_.parameters(), {}),
        taper_weights_(model_.taper_parameters(), {}) {
    model_.initialize(0.02, true, 1);
    std::map<std::string, double> scales;
    for (const NormSite& site : norm_sites(shape.model)) scales[site.name] = 1;
    model_.begin_taper(scales);
    ids_ = random_ids(1);
    targets_ = random_ids(2);
  }

  // (loss error, gradient error), relative, of one step over `windows` windows.
  std::pair<double, double> check(BenchNorm state, int64_t windows) {
    const torch::Tensor ids = ids_.narrow(0, 0, windows), targets = targets_.narrow(0, 0, windows);
    const double gate = gate_of(state);
    const PassSums sums = run(state, ids, targets, 1);
    const torch::Tensor ours = model_.parameters().gradients().clone();
    clear();
    ForwardOptions options;
    options.gate = gate;
    const ForwardResult expected = model_.forward(ids, targets, options);
    expected.loss_sum.backward();
    const torch::Tensor right = model_.parameters().gradients().clone();
    clear();
    return {std::abs(sums.loss / expected.loss_value - 1),
            ((ours - right).norm() / right.norm()).item<double>()};
  }

  void step(BenchNorm state) {
    constexpr double kClip = 1, kRate = 3e-4;
    run(state, ids_, targets_, 1 / static_cast<double>(ids_.numel()));
    const auto start = Clock::now();
    const bool tapered = state != BenchNorm::kPlain;
    double squared = weights_.squared_gradient_norm();
    if (tapered) squared += taper_weights_.squared_gradient_norm();
    const double scale = std::min(1.0, kClip / std::sqrt(squared));
    weights_.step(kRate, scale);
    if (tapered) taper_weights_.step(kRate, scale);
    clear();
    optimizer_seconds += seconds_since(start);
  }

  int64_t tokens() const { return ids_.numel(); }
  void set_profile(PassProfile* profile) { pass_.set_profile(profile); }
  double optimizer_seconds = 0;

 private:
  static double gate_of(BenchNorm state) {
    return state == BenchNorm::kPlain ? 1 : state == BenchNorm::kTaper ? 0.5 : 0;
  }

  torch::Tensor random_ids(uint64_t seed) const {
    torch::Tensor ids = torch::empty({shape_.batch, shape_.window}, torch::kInt64);
    Random random(seed, 1);
    for (int64_t i = 0; i < ids.numel(); ++i)
      ids.data_ptr<int64_t>()[i] =
          static_cast<int64_t>(random.below(static_cast<uint64_t>(shape_.model.vocab_size)));
    return ids;
  }

  PassSums run(BenchNorm state, const torch::Tensor& ids, const torch::Tensor& targets,
               double loss_weight) {
    FusedParameters parameters = model_.fused_parameters(false);
    if (state == BenchNorm::kPlain)
      for (FusedBlock& block : parameters.blocks)
        block.attention_norm.gamma_t = block.ffn_norm.gamma_t = {};
    PassOptions options;
    options.gate = gate_of(state);
    options.backward = true;
    options.loss_weight = loss_weight;
    return pass_.run(
        parameters,
        {ids.data_ptr<int64_t>(), targets.data_ptr<int64_t>(), ids.size(0), ids.size(1)}, options);
  }

  void clear() {
    weights_.clear_gradients();
    taper_weights_.clear_gradients();
  }

  Shape shape_;
  Transformer model_;
  FusedTransformer pass_;
  AdamW weights_, taper_weights_;
  torch::Tensor ids_, targets_;
};

std::vector<std::string> peer_command(const TrainBenchOptions& options, const Shape& shape,
                                      const std::string& peer, int threads) {
  constexpr std::string_view prefix = "torch-";
  if (peer != "torch-eager" && peer != "torch-compile")
    throw ConfigError(fmt::format("no peer is called {}", peer),
                      "use torch-eager or torch-compile");
  if (shape.model.q_width() != shape.model.width || !shape.model.tied_head)
    throw ConfigError("the peers train models with a tied head and heads that fill the width");
  std::vector<std::string> command = {options.python.string(),
                                      options.peer_script.string(),
                                      "--mode",
                                      peer.substr(prefix.size()),
                                      "--dtype",
                                      options.dtype};
  const auto add = [&](const char* name, int64_t value) {
    command.push_back(fmt::format("--{}", name));
    command.push_back(std::to_string(value));
  };
  add("layers", shape.model.num_layers);
  add("width", shape.model.width);
  add("heads", shape.model.num_heads);
  add("kv-heads", shape.model.num_kv_heads);
  add("ffn-width", shape.model.ffn_width);
  add("vocab", shape.model.vocab_size);
  add("batch", shape.batch);
  add("window", shape.window);
  add("threads", threads);
  return command;
}

}  // namespace

double speed_ratio(const TrainBenchRow& row, const TrainBenchRow& other) {
  std::vector<double> ratios;
  for (size_t round = 0; round < row.speeds.size(); ++round)
    ratios.push_back(row.speeds[round] / other.speeds[round]);
  return median(ratios);
}

std::vector<std::string> train_bench_shapes() {
  std::vector<std::string> names;
  for (const Shape& shape : named_shapes()) names.push_back(shape.name);
  return names;
}

TrainBenchResult bench_train(const TrainBenchOptions& options) {
  if (options.dtype != "fp32" && options.dtype != "bf16")
    throw ConfigError(fmt::format("--dtype {}: no such type", options.dtype), "use fp32 or bf16");
  if (options.rounds < 1) throw ConfigError("--rounds: at least 1 is needed");
  if (!(options.seconds >= 0 && options.seconds <= 3600))
    throw ConfigError(fmt::format("--seconds {}: a turn lasts 0 to 3600 seconds", options.seconds));
  if (options.threads > 0) at::set_num_threads(options.threads);
  const Activations activations =
      options.dtype == "bf16" ? Activations::kBF16 : Activations::kFloat;
  const Shape shape = find_shape(options.shape);
  std::vector<BenchNorm> states;
  for (const std::string& norm : options.norms) states.push_back(parse_norm(norm));

  TrainBenchResult result;
  result.shape = shape.name;
  result.dtype = options.dtype;
  result.threads = at::get_num_threads();
  result.flops_per_token = flops_per_token(shape);
  // Products forward and backward: scores and values; scores again and the four gradients.
  const double pairs = attention_pairs_per_token(shape);
  result.attention_flops_per_token = 14 * pairs * static_cast<double>(shape.model.head_width);
  result.attention_exps_per_token = 2 * pairs;

  Subject subject(shape, activations);
  for (const BenchNorm state : states) {
    const auto [loss, gradient] = subject.check(state, 1);
    result.check_loss_error = std::max(result.check_loss_error, loss);
    result.check_gradient_error = std::max(result.check_gradient_error, gradient);
  }
  const double tolerance = activations == Activations::kBF16 ? 3e-2 : 1e-4;
  if (!(result.check_loss_error < tolerance && result.check_gradient_error < tolerance))
    throw NumericsError(
        fmt::format("a step differs from the reference: loss by {:.2g}, gradient by "
                    "{:.2g} (allowed {:.0g}); nothing was timed",
                    result.check_loss_error, result.check_gradient_error, tolerance));

  std::vector<std::unique_ptr<PeerProcess>> peers;
  std::vector<double> peer_step_seconds;
  for (const std::string& peer : options.against) {
    log_info("starting {}", peer);
    peers.push_back(
        std::make_unique<PeerProcess>(peer_command(options, shape, peer, result.threads)));
    peers.back()->turn(2);  // warms up, compiles
    peer_step_seconds.push_back(peers.back()->turn(1).seconds);
  }

  reset_peak_memory();
  for (const BenchNorm state : states) subject.step(state);
  result.profiles.resize(states.size());
  result.optimizer_seconds.resize(states.size());
  result.total_seconds.resize(states.size());
  std::vector<std::vector<double>> speeds(states.size() + peers.size());
  std::vector<double> peer_memory(peers.size());
  for (int round = 0; round < options.rounds; ++round) {
    if (interrupted()) throw Interrupted("interrupted", "");
    const bool half = activations == Activations::kBF16;
    if (!half || options.profile)
      result.fma_limit = std::max(result.fma_limit, limit(run_fma_chains, int64_t{1} << 25));
    result.limit_flops = half ? std::max(result.limit_flops, bf16_limit()) : result.fma_limit;
    if (options.profile)
      result.exp_limit = std::max(result.exp_limit, limit(run_exponentials, int64_t{1} << 22));
    for (size_t turn = 0; turn < states.size(); ++turn) {
      // Another one begins each round, so that none keeps one place among the turns.
      const size_t i = (turn + static_cast<size_t>(round)) % states.size();
      if (options.profile) subject.set_profile(&result.profiles[i]);
      const double optimizer_before = subject.optimizer_seconds;
      const auto start = Clock::now();
      double tokens = 0, seconds = 0;
      do {
        subject.step(states[i]);
        tokens += static_cast<double>(subject.tokens());
        seconds = seconds_since(start);
      } while (seconds < options.seconds);
      subject.set_profile(nullptr);
      speeds[i].push_back(tokens / seconds);
      result.optimizer_seconds[i] += subject.optimizer_seconds - optimizer_before;
      result.total_seconds[i] += seconds;
    }
    for (size_t i = 0; i < peers.size(); ++i) {
      const auto steps = static_cast<int64_t>(options.seconds / peer_step_seconds[i]);
      const PeerTurn turn = peers[i]->turn(std::max<int64_t>(1, steps));
      speeds[states.size() + i].push_back(turn.tokens / turn.seconds);
      peer_memory[i] = turn.peak_memory_mb;
    }
  }

  for (size_t i = 0; i < speeds.size(); ++i) {
    const bool ours = i < states.size();
    TrainBenchRow row;
    row.variant = ours ? options.norms[i] : options.against[i - states.size()];
    row.ours = ours;
    row.speeds = speeds[i];
    row.tokens_per_s = median(speeds[i]);
    row.min = *std::min_element(speeds[i].begin(), speeds[i].end());
    row.max = *std::max_element(speeds[i].begin(), speeds[i].end());
    row.flop_share = row.tokens_per_s * result.flops_per_token / result.limit_flops;
    row.peak_memory_mb = ours ? peak_memory_mb() : peer_memory[i - states.size()];
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace taper
