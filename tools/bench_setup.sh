#!/usr/bin/env bash
# Installs what the peers of `taper bench ... --against` need, and only what is missing: PyTorch in the virtual
# environment .venv, what it imports and, where no CUDA 13 toolkit has them, the libraries that its wheel loads.
# Nothing else of taper needs any of it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.11.0
readonly cuda_version='13.0.*'
readonly needed_mib=3072
readonly log=build/bench-setup.log
readonly python=.venv/bin/python

say() { echo "bench-setup: $*"; }

# fail WHAT NEXT-STEP
fail() {
  echo "error: $1" >&2
  echo "  $2" >&2
  exit 1
}

install() {
  say "installing $*"
  "$python" -m pip install --disable-pip-version-check --retries 2 --only-binary :all: --progress-bar off "$@" \
    >>"$log" 2>&1 </dev/null || {
    local why
    why=$(grep -E '^ERROR|No space left' "$log" | tail -n 1 || true)
    fail "pip could not install $*${why:+: $why}" "the whole output is in $log"
  }
}

imports() { "$python" -c 'import torch, numpy' >>"$log" 2>&1; }

# pip writes INSTALLER after all files of a package: an interrupted installation lacks it.
is_installed() { compgen -G ".venv/lib/python3*/site-packages/$1*.dist-info/INSTALLER" >/dev/null; }

cuda_toolkit_has() {
  local folder
  for folder in lib64 lib extras/CUPTI/lib64; do
    if compgen -G "/usr/local/cuda*/$folder/$1" >/dev/null; then
      return 0
    fi
  done
  return 1
}

make_venv() {
  if [[ -L .venv && ! -e .venv ]]; then
    fail ".venv is a link to a folder that does not exist" "remove it and run 'make bench-setup' again"
  fi
  [[ -x $python && -d $(echo .venv/lib/python3*/site-packages/pip) ]] && return 0
  local free
  free=$(($(df -Pk . | awk 'NR == 2 {print $4}') / 1024))
  ((free >= needed_mib)) ||
    fail "$PWD has $free MiB free, PyTorch needs $needed_mib MiB" "free some space and run 'make bench-setup' again"
  say "making the virtual environment .venv"
  /usr/bin/python3 -m venv .venv >>"$log" 2>&1 ||
    fail "python3 could not make .venv: $(tail -n 1 "$log")" "the whole output is in $log"
}

# The wheel alone, 1.2 GB on disk: what it asks for beside it is several times larger, and of it all only these few
# are used on a CPU.
install_wheels() {
  is_installed "torch-$torch_version" || install --no-deps "torch==$torch_version"
  cuda_toolkit_has libcudart.so.13 || is_installed nvidia_cuda_runtime-13.0 ||
    install --no-deps "nvidia-cuda-runtime==$cuda_version"
  cuda_toolkit_has libcupti.so.13 || is_installed nvidia_cuda_cupti-13.0 ||
    install --no-deps "nvidia-cuda-cupti==$cuda_version"
  install typing-extensions sympy filelock networkx jinja2 fsspec 'setuptools<82' numpy
}

tools/bootstrap.sh bench
: >"$log"
make_venv
imports || install_wheels
# Beside a CUDA toolkit these three are all that the wheel still lacks.
imports || install --no-deps nvidia-cufile nvidia-cusparselt-cu13 nvidia-nvshmem-cu13
imports || install "torch==$torch_version"
imports || fail "PyTorch still does not load: $(tail -n 1 "$log")" "the whole output is in $log"
say "the peers are ready"
