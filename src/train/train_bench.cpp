#include "train/train_bench.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/timing.h"
#include "kernels/peak.h"
#include "ops/linear.h"
#include "train/peer_process.h"

namespace taper {

namespace {

using Clock = std::chrono::steady_clock;

// Tokens of a window that the check in double takes: plain loops are slow.
constexpr int64_t kCheckedTokens = 16;

// Operations per second of all threads together.
double limit(ThreadPool& threads, int64_t (*run_rounds)(int64_t, float*), int64_t rounds) {
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    int64_t operations = 0;
    const auto start = Clock::now();
    std::vector<int64_t> parts(static_cast<size_t>(threads.size()));
    threads.run(threads.size(), 1, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        float sink = static_cast<float>(i);
        parts[static_cast<size_t>(i)] = run_rounds(rounds, &sink);
      }
    });
    for (const int64_t part : parts) operations += part;
    best = std::max(best, static_cast<double>(operations) / seconds_since(start));
  }
  return best;
}

double bf16_limit(ThreadPool& threads) {
  double best = 0;
  LinearOp products(threads);
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

std::vector<std::string> peer_command(const TrainBenchOptions& options, const BenchShape& shape,
                                      const std::string& peer, int threads,
                                      const std::filesystem::path& weights) {
  constexpr std::string_view prefix = "torch-";
  if (peer != "torch-eager" && peer != "torch-compile")
    throw ConfigError(fmt::format("no peer is called {}", peer),
                      "use torch-eager or torch-compile");
  std::vector<std::string> command = {options.python.string(),
                                      options.peer_script.string(),
                                      "--mode",
                                      peer.substr(prefix.size()),
                                      "--dtype",
                                      options.dtype,
                                      "--weights",
                                      weights.string()};
  const auto add = [&](const char* name, int64_t value) {
    command.push_back(fmt::format("--{}", name));
    command.push_back(std::to_string(value));
  };
  add("layers", shape.model.num_layers);
  add("width", shape.model.width);
  add("heads", shape.model.num_heads);
  add("kv-heads", shape.model.num_kv_heads);
  add("head-width", shape.model.head_width);
  add("ffn-width", shape.model.ffn_width);
  add("vocab", shape.model.vocab_size);
  add("batch", shape.batch);
  add("window", shape.window);
  add("threads", threads);
  return command;
}

// Handed over to the peers, and gone with the last of them.
struct TemporaryFile {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               fmt::format("taper-bench-{}.safetensors", ::getpid());
  TemporaryFile() = default;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

struct Tolerance {
  double loss, gradient;
};

void require_close(const StepDifference& found, const Tolerance& allowed, const std::string& what) {
  if (found.loss <= allowed.loss && found.gradient <= allowed.gradient) return;
  throw NumericsError(
      fmt::format("a step differs from {}: loss by {:.2g} (allowed {:.0g}), the "
                  "gradient of {} by {:.2g} (allowed {:.0g}); nothing was timed",
                  what, found.loss, allowed.loss, found.worst, found.gradient, allowed.gradient));
}

void check_options(const TrainBenchOptions& options) {
  if (options.dtype != "fp32" && options.dtype != "bf16")
    throw ConfigError(fmt::format("--dtype {}: no such type", options.dtype), "use fp32 or bf16");
  if (options.rounds < 1) throw ConfigError("--rounds: at least 1 is needed");
  if (!(options.seconds >= 0 && options.seconds <= 3600))
    throw ConfigError(fmt::format("--seconds {}: a turn lasts 0 to 3600 seconds", options.seconds));
}

class Peers {
 public:
  // Starts each on the subject's weights and tokens, and compares a step at every norm state.
  Peers(const TrainBenchOptions& options, const BenchShape& shape, BenchSubject& subject,
        const std::vector<BenchNorm>& norms, int threads, std::vector<StepDifference>& checks) {
    for (const std::string& peer : options.against)
      commands_.push_back(peer_command(options, shape, peer, threads, file_.path));
    if (commands_.empty()) return;
    subject.write(file_.path);
    const bool half = options.dtype == "bf16";
    // Autocast rounds in other places than we do.
    const Tolerance allowed = half ? Tolerance{5e-3, 5e-2} : Tolerance{1e-5, 1e-3};
    for (size_t i = 0; i < commands_.size(); ++i) {
      log_info("starting {}", options.against[i]);
      peers_.push_back(std::make_unique<PeerProcess>(commands_[i]));
      StepDifference worst;
      for (const BenchNorm norm : norms) {
        const StepDifference found =
            difference(subject.numbers(norm), peers_[i]->numbers(gate_of(norm)));
        require_close(found, allowed, options.against[i]);
        worst.loss = std::max(worst.loss, found.loss);
        worst.note(found.worst, found.gradient);
      }
      checks.push_back(worst);
      peers_[i]->turn(2);  // warms up, compiles
      step_seconds_.push_back(peers_[i]->turn(1).seconds);
    }
  }

  size_t size() const { return peers_.size(); }
  PeerTurn turn(size_t i, double seconds) {
    const auto steps = static_cast<int64_t>(seconds / step_seconds_[i]);
    return peers_[i]->turn(std::max<int64_t>(1, steps));
  }

 private:
  TemporaryFile file_;
  std::vector<std::vector<std::string>> commands_;
  std::vector<std::unique_ptr<PeerProcess>> peers_;
  std::vector<double> step_seconds_;
};

TrainBenchRow make_row(const std::string& variant, bool ours, std::vector<double> speeds,
                       double memory, const TrainBenchResult& result) {
  TrainBenchRow row;
  row.variant = variant;
  row.ours = ours;
  row.tokens_per_s = median(speeds);
  row.min = *std::min_element(speeds.begin(), speeds.end());
  row.max = *std::max_element(speeds.begin(), speeds.end());
  row.flop_share = row.tokens_per_s * result.flops_per_token / result.limit_flops;
  row.peak_memory_mb = memory;
  row.speeds = std::move(speeds);
  return row;
}

}  // namespace

double speed_ratio(const TrainBenchRow& row, const TrainBenchRow& other) {
  std::vector<double> ratios;
  for (size_t round = 0; round < row.speeds.size(); ++round)
    ratios.push_back(row.speeds[round] / other.speeds[round]);
  return median(ratios);
}

TrainBenchResult bench_train(const TrainBenchOptions& options) {
  check_options(options);
  const bool half = options.dtype == "bf16";
  const BenchShape shape = find_bench_shape(options.shape);
  std::vector<BenchNorm> norms;
  for (const std::string& norm : options.norms) norms.push_back(parse_bench_norm(norm));
  ThreadPool threads(options.threads);

  TrainBenchResult result;
  result.shape = shape.name;
  result.dtype = options.dtype;
  result.threads = threads.size();
  result.flops_per_token = shape.flops_per_token();
  // Products forward and backward: scores and values; scores again and the four gradients.
  const double pairs = shape.attention_pairs_per_token();
  result.attention_flops_per_token = 14 * pairs * static_cast<double>(shape.model.head_width);
  result.attention_exps_per_token = 2 * pairs;

  BenchSubject subject(shape, half ? Activations::kBF16 : Activations::kFull, threads);
  for (const BenchNorm norm : norms) {
    const StepDifference found = subject.check(norm, threads.size(), kCheckedTokens);
    require_close(found, half ? Tolerance{3e-2, 1e-1} : Tolerance{1e-5, 1e-4},
                  "the reference in double");
    result.check_loss_error = std::max(result.check_loss_error, found.loss);
    result.check_gradient_error = std::max(result.check_gradient_error, found.gradient);
  }
  Peers peers(options, shape, subject, norms, threads.size(), result.peer_checks);

  reset_peak_memory();
  for (const BenchNorm norm : norms) subject.step(norm);
  result.profiles.resize(norms.size());
  result.optimizer_seconds.resize(norms.size());
  result.total_seconds.resize(norms.size());
  std::vector<std::vector<double>> speeds(norms.size() + peers.size());
  std::vector<double> peer_memory(peers.size());
  for (int round = 0; round < options.rounds; ++round) {
    throw_if_interrupted();
    if (!half || options.profile)
      result.fma_limit =
          std::max(result.fma_limit, limit(threads, run_fma_chains, int64_t{1} << 25));
    result.limit_flops =
        half ? std::max(result.limit_flops, bf16_limit(threads)) : result.fma_limit;
    if (options.profile)
      result.exp_limit =
          std::max(result.exp_limit, limit(threads, run_exponentials, int64_t{1} << 22));
    for (size_t turn = 0; turn < norms.size(); ++turn) {
      // Another one begins each round, so that none keeps one place among the turns.
      const size_t i = (turn + static_cast<size_t>(round)) % norms.size();
      if (options.profile) subject.set_profile(&result.profiles[i]);
      const double optimizer_before = subject.optimizer_seconds();
      const auto start = Clock::now();
      double tokens = 0, seconds = 0;
      do {
        subject.step(norms[i]);
        tokens += static_cast<double>(shape.tokens());
        seconds = seconds_since(start);
      } while (seconds < options.seconds);
      subject.set_profile(nullptr);
      speeds[i].push_back(tokens / seconds);
      result.optimizer_seconds[i] += subject.optimizer_seconds() - optimizer_before;
      result.total_seconds[i] += seconds;
    }
    for (size_t i = 0; i < peers.size(); ++i) {
      const PeerTurn turn = peers.turn(i, options.seconds);
      speeds[norms.size() + i].push_back(turn.tokens / turn.seconds);
      peer_memory[i] = turn.peak_memory_mb;
    }
  }
  for (size_t i = 0; i < norms.size(); ++i)
    result.rows.push_back(
        make_row(options.norms[i], true, std::move(speeds[i]), peak_memory_mb(), result));
  for (size_t i = 0; i < peers.size(); ++i)
    result.rows.push_back(make_row(options.against[i], false, std::move(speeds[norms.size() + i]),
                                   peer_memory[i], result));
  return result;
}

}  // namespace taper
