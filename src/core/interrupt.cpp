#include "core/interrupt.h"

#include <csignal>

#include "core/error.h"

namespace taper {
namespace {

volatile std::sig_atomic_t signalled = 0;

void on_signal(int signal) {
  if (signalled != 0) {  // the second one: take effect as soon as this handler returns
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  signalled = 1;
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signalled != 0; }

void throw_if_interrupted() {
  if (interrupted()) throw Interrupted("interrupted");
}

}  // namespace taper
