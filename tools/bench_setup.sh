#!/usr/bin/env bash
# Installs in .venv what the peers of `taper bench ... --against` need: PyTorch's Python dependencies and, where no
# CUDA 13 toolkit provides them, the libraries that its wheel loads. Only what is missing; nothing else of taper
# needs any of it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly log=build/bench-setup.log
readonly python=.venv/bin/python

say() { echo "bench-setup: $*"; }

install() {
  say "installing $*"
  "$python" -m pip install --disable-pip-version-check --only-binary :all: --progress-bar off "$@" >>"$log" 2>&1 </dev/null || {
    grep -E '^ERROR' "$log" | tail -n 1 >&2
    echo "error: pip could not install the peers; the whole output is in $log" >&2
    exit 1
  }
}

imports() { "$python" -c 'import torch, numpy' >>"$log" 2>&1; }

: >"$log"
if ! imports; then
  install typing-extensions sympy filelock networkx jinja2 fsspec 'setuptools<82' numpy
fi
# Beside a CUDA toolkit these three are all that the wheel still lacks.
imports || install --no-deps nvidia-cufile nvidia-cusparselt-cu13 nvidia-nvshmem-cu13
imports || install "torch==$(sed -n 's/^readonly torch_version=//p' tools/bootstrap.sh)"
imports || {
  echo "error: PyTorch still does not load: $(tail -n 1 "$log")" >&2
  exit 1
}
say "the peers are ready"
