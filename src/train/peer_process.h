// A rival that trains the same shape in a process of its own, and takes turns (bench/peers/*.py).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "train/bench_subject.h"

namespace taper {

struct PeerTurn {
  double seconds = 0, tokens = 0, peak_memory_mb = 0, loss = 0;
};

class PeerProcess {
 public:
  // Starts `command`. ResourceError when it cannot.
  explicit PeerProcess(const std::vector<std::string>& command);
  ~PeerProcess();  // closes its input, which ends it, and waits
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Makes `steps` training steps. ConfigError when the peer ends instead of answering.
  PeerTurn turn(int64_t steps);
  // The loss and gradient norms of its weights as they stand, its norms at a gate.
  StepNumbers numbers(double gate);

 private:
  Json ask(const std::string& request);
  std::string read_line();

  std::string name_;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  std::string pending_;
};

}  // namespace taper
