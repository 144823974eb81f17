// A made-up run folder with a log like the trainer's.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>

namespace taper {

struct FakeRun {
  int steps = 40;
  bool tapers = true;
  double last_loss = 3.0;
  bool ends = true;
};

// The gate falls between a tenth and a half of the steps; validation every tenth.
inline double fake_gate(const FakeRun& run, int step) {
  const double start = 0.1 * run.steps, end = 0.5 * run.steps;
  if (!run.tapers || step < start) return 1;
  if (step >= end) return 0;
  return (1 + std::cos(std::numbers::pi * (step - start) / (end - start))) / 2;
}

inline std::string fake_log(const FakeRun& run) {
  std::string log;
  for (int step = 1; step <= run.steps; ++step) {
    const double share = static_cast<double>(step) / run.steps;
    const double loss = run.last_loss + 5 * (1 - share) * (1 - share);
    const double gate = fake_gate(run, step);
    log += fmt::format(
        R"({{"kind":"train","step":{},"loss":{},"anchor_loss":{},"gate":{},"lr":{},"grad_norm":1.5,)"
        R"("logit_norm":{},"final_scale":4.5,"tokens_per_s":9000,"tokens":{},"seconds":{}}})"
        "\n",
        step, loss, 0.01 * (1 - gate), gate, 1e-3 * (1 - share), 100 + 500 * share, step * 4096,
        0.5 * step);
    if (run.tapers && step == run.steps / 10) {
      log += fmt::format(
          R"({{"kind":"calibration","step":{},"norms":[)"
          R"({{"name":"model.layers.0.input_layernorm","c":1.25}},)"
          R"({{"name":"model.layers.0.post_attention_layernorm","c":0.75}}],"s_tgt":4.25}})"
          "\n",
          step);
    }
    if (step % (run.steps / 10) != 0) continue;
    log += fmt::format(R"({{"kind":"valid","step":{},"loss":{},"gate":{})", step, loss, gate);
    if (run.tapers && step >= run.steps / 10) log += fmt::format(R"(,"loss_g0":{})", loss + gate);
    log += "}\n";
  }
  if (run.ends) {
    log += fmt::format(
        R"({{"kind":"end","step":{},"train_loss":{},"valid_loss":{},"tokens_per_s":9100,)"
        R"("seconds":60}})"
        "\n",
        run.steps, run.last_loss, run.last_loss);
  }
  return log;
}

inline void write_fake_run(const std::filesystem::path& folder, const FakeRun& run) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "metrics.jsonl") << fake_log(run);
  std::ofstream(folder / "config.toml") << "[train]\nsteps = " << run.steps << "\n";
}

}  // namespace taper
