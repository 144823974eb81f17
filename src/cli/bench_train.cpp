// taper bench train: training speed beside the machine's limit and what a user would run instead.
#include "cli/bench_train.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/data_files.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "train/train_bench.h"

namespace taper {

namespace {

struct Options {
  TrainBenchOptions bench;
  bool json = false;
};

Json to_json(const TrainBenchResult& result) {
  Json rows = Json::array();
  const auto ours = [](const TrainBenchRow& row) { return row.ours; };
  for (const TrainBenchRow& row : result.rows) {
    if (!row.ours) continue;
    Json json = {{"shape", result.shape},
                 {"dtype", result.dtype},
                 {"norm", row.variant},
                 {"threads", result.threads},
                 {"tokens_per_s", row.tokens_per_s},
                 {"min", row.min},
                 {"max", row.max},
                 {"flop_share", row.flop_share},
                 {"peak_memory_mb", row.peak_memory_mb},
                 {"ratio_to_first", speed_ratio(row, result.rows.front())}};
    rows.push_back(json);
    for (const TrainBenchRow& peer : result.rows) {
      if (ours(peer)) continue;
      json["peer"] = peer.variant;
      json["peer_tokens_per_s"] = peer.tokens_per_s;
      json["peer_peak_memory_mb"] = peer.peak_memory_mb;
      json["ratio"] = speed_ratio(row, peer);
      rows.push_back(json);
    }
  }
  Json peer_checks = Json::array();
  for (const StepDifference& check : result.peer_checks)
    peer_checks.push_back({{"loss", check.loss}, {"gradient", check.gradient}});
  return {{"bench", "train"},
          {"flops_per_token", result.flops_per_token},
          {"limit_flops", result.limit_flops},
          {"check_loss_error", result.check_loss_error},
          {"check_gradient_error", result.check_gradient_error},
          {"peer_checks", peer_checks},
          {"rows", rows}};
}

std::string table(const TrainBenchResult& result) {
  std::string peers;
  for (size_t i = 0; i < result.peer_checks.size(); ++i) {
    const StepDifference& check = result.peer_checks[i];
    const TrainBenchRow& row = result.rows[result.rows.size() - result.peer_checks.size() + i];
    peers += fmt::format("  and {} to {:.1g} (loss) and {:.1g} (norms of gradients)\n", row.variant,
                         check.loss, check.gradient);
  }
  std::string text = fmt::format(
      "{}, {}, {} threads: one step equals the reference to {:.1g} (loss) and {:.1g} (gradient)\n{}"
      "limit {:.0f} GFLOP/s, {:.2f} MFLOP a token\n\n"
      "{:<16}{:>12}{:>12}{:>12}{:>10}{:>12}{:>10}\n",
      result.shape, result.dtype, result.threads, result.check_loss_error,
      result.check_gradient_error, peers, result.limit_flops / 1e9, result.flops_per_token / 1e6,
      "variant", "tokens/s", "min", "max", "of limit", "memory MB", "taper is");
  const TrainBenchRow& first = result.rows.front();
  for (const TrainBenchRow& row : result.rows)
    text += fmt::format("{:<16}{:>12.0f}{:>12.0f}{:>12.0f}{:>8.1f} %{:>12.0f}{:>9.3f}x\n",
                        row.ours ? "taper " + row.variant : row.variant, row.tokens_per_s, row.min,
                        row.max, 100 * row.flop_share, row.peak_memory_mb, speed_ratio(first, row));
  return text;
}

std::string profile_table(const TrainBenchResult& result) {
  std::string text;
  for (size_t i = 0; i < result.profiles.size(); ++i) {
    const OpProfile& profile = result.profiles[i];
    const double total = result.total_seconds[i];
    text += fmt::format("\n{:<24}{:>12}{:>12}\n", "taper " + result.rows[i].variant, "forward",
                        "backward");
    double rest = total - result.optimizer_seconds[i];
    for (size_t op = 0; op < kOpNames.size(); ++op) {
      rest -= profile.forward[op] + profile.backward[op];
      text += fmt::format("{:<24}{:>10.1f} %{:>10.1f} %\n", kOpNames[op],
                          100 * profile.forward[op] / total, 100 * profile.backward[op] / total);
    }
    text += fmt::format("{:<24}{:>22.1f} %\n", "clipping and AdamW",
                        100 * result.optimizer_seconds[i] / total);
    text += fmt::format("{:<24}{:>22.1f} %\n", "not measured", 100 * rest / total);
    // A thread's time is what all threads together have for that many more tokens.
    const auto attention = static_cast<size_t>(OpKind::kAttention);
    const double seconds = (profile.forward[attention] + profile.backward[attention]) / total /
                           result.rows[i].tokens_per_s;
    text += fmt::format(
        "attention: its multiply-adds alone would take {:.0f} % of its time, its "
        "exponentials {:.0f} %\n",
        100 * result.attention_flops_per_token / result.fma_limit / seconds,
        100 * result.attention_exps_per_token / result.exp_limit / seconds);
  }
  return text;
}

void run(const Options& options) {
  TrainBenchOptions bench = options.bench;
  if (!bench.against.empty()) bench.peer_script = data_file(bench.peer_script);
  const TrainBenchResult result = bench_train(bench);
  if (options.json) {
    print_json(to_json(result));
    return;
  }
  print_text(table(result));
  if (options.bench.profile) print_text(profile_table(result));
}

}  // namespace

void setup_bench_train(CLI::App& group) {
  auto options = std::make_shared<Options>();
  TrainBenchOptions& bench = options->bench;
  CLI::App& app = add_subcommand(group, "train", "tokens per second of full training steps");
  app.add_option("--shape", bench.shape,
                 "6l-d256, paper-1m, paper-3m, paper-9m, paper-30m, or a configuration file");
  app.add_option("--dtype", bench.dtype, "fp32 or bf16");
  app.add_option("--norm", bench.norms,
                 "plain, taper (gate 1/2), settled (gate 0); several take turns: plain,settled")
      ->delimiter(',');
  app.add_option("--against", bench.against, "torch-eager, torch-compile, or both with a comma")
      ->delimiter(',');
  app.add_option("--rounds", bench.rounds, "turns of each");
  app.add_option("--seconds", bench.seconds, "length of a turn; at least one step");
  app.add_flag("--profile", bench.profile, "where the time of a step goes");
  app.add_option("--python", bench.python, "the Python that has PyTorch (make bench-setup)")
      ->type_name(kFile);
  add_threads(app, bench.threads);
  add_json(app, options->json);
  add_quiet(app);
  app.footer(
      "A step is forward, backward, clipping and AdamW on random tokens. First its loss and every\n"
      "gradient are checked: of some tokens against the pass in double, of the whole batch\n"
      "against each peer on the same weights. Nothing is timed when they differ. All variants\n"
      "take turns in one run, and the limit is measured in each round.\n\n"
      "Examples:\n"
      "  taper bench train --shape paper-3m --norm plain,taper,settled\n"
      "  taper bench train --shape 6l-d256 --dtype bf16 --against torch-eager,torch-compile");
  app.callback([options] { run(*options); });
}

}  // namespace taper
