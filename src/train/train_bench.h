// taper bench train: full training steps on random tokens, in turns with what a user would run
// instead.
//
// A step is forward, backward, clipping and AdamW. Before anything is timed, the loss and every
// gradient of some tokens are checked against the pass in double, and those of the whole batch
// against every peer, which gets the same weights and tokens. The limit is measured in the same
// run: fused multiply-adds on registers for fp32, oneDNN's fastest product for bf16.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ops/context.h"
#include "train/bench_subject.h"

namespace taper {

struct TrainBenchOptions {
  std::string shape = "6l-d256";  // a name of bench_shape_names(), or a configuration file
  std::string dtype = "fp32";
  std::vector<std::string> norms = {"plain"};  // plain, taper (gate 1/2), settled (gate 0)
  std::vector<std::string> against;            // torch-eager, torch-compile
  int rounds = 5;
  double seconds = 2;  // of a turn, at least one step
  int threads = 0;
  bool profile = false;
  std::filesystem::path python = ".venv/bin/python";
  std::filesystem::path peer_script = "bench/peers/train_torch.py";
};

struct TrainBenchRow {
  std::string variant;  // taper's norm state, or the peer
  bool ours = true;
  std::vector<double> speeds;                 // tokens per second, a round each
  double tokens_per_s = 0, min = 0, max = 0;  // median and range over the rounds
  double flop_share = 0;
  double peak_memory_mb = 0;
};

struct TrainBenchResult {
  std::string shape, dtype;
  int threads = 0;
  double flops_per_token = 0, limit_flops = 0;            // per second
  double check_loss_error = 0, check_gradient_error = 0;  // relative, against the pass in double
  std::vector<StepDifference> peer_checks;                // of each peer
  std::vector<TrainBenchRow> rows;
  // With `profile`: what attention cannot do without, and the machine's limits for it, per second.
  double attention_flops_per_token = 0, attention_exps_per_token = 0;
  double fma_limit = 0, exp_limit = 0;
  std::vector<OpProfile> profiles;  // of our rows, in order, when asked for
  std::vector<double> optimizer_seconds, total_seconds;
};

// How many times the speed of `other` a row has: the median over the rounds, in each of which the
// two ran close together.
double speed_ratio(const TrainBenchRow& row, const TrainBenchRow& other);

// NumericsError when the check fails; ConfigError for an unknown name, or a peer that does not
// start.
TrainBenchResult bench_train(const TrainBenchOptions& options);

}  // namespace taper
