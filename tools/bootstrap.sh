#!/usr/bin/env bash
# Installs what building, testing and the demo need, and only what is missing:
#   - Debian 12 packages, with apt-get (through sudo when not root);
#   - the pinned torch wheel, without its dependencies, in the virtual environment .venv;
#   - the two small CUDA runtime libraries that its CPU half loads, when no CUDA 13 toolkit has them.
# With nothing to do it takes a fraction of a second and no network. Every failure is one line and a next step.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.11.0
readonly cuda_version='13.0.*'
readonly needed_mib=4096
readonly log=build/bootstrap.log

# Tools; libraries; the text of the demo.
readonly packages=(
  g++ cmake ninja-build ccache mold clang-format clang-tidy pkg-config git ca-certificates python3 python3-venv
  libcli11-dev libdnnl-dev libfmt-dev libhwy-dev libtomlplusplus-dev libutf8proc-dev libxxhash-dev
  nlohmann-json3-dev libgtest-dev libgmock-dev
  bible-kjv
)

say() { echo "bootstrap: $*"; }

# fail WHAT NEXT-STEP
fail() {
  echo "error: $1" >&2
  echo "  $2" >&2
  exit 1
}

# The line of the log that explains a failure best.
reason() { grep -E '^(E:|ERROR:|Error:|Err:)|No space left' "$log" | tail -n 1 || true; }

# explain WHAT: ends the run with the cause found in the log.
explain() {
  if grep -q 'No space left' "$log"; then
    fail "$1: no space left on the disk" "free $needed_mib MiB and run 'make bootstrap' again"
  elif grep -qE 'Could not resolve|name resolution|Could not connect|Failed to establish|Connection timed out|Network is unreachable|Max retries' "$log"; then
    fail "$1: no network" "connect, or set a proxy or mirror for apt and pip, and run 'make bootstrap' again"
  fi
  local why
  why=$(reason)
  fail "$1${why:+: $why}" "the whole output is in $log"
}

# require_space MIB FOLDER
require_space() {
  local free
  free=$(($(df -Pk "$2" | awk 'NR == 2 {print $4}') / 1024))
  if ((free < $1)); then
    fail "$(realpath "$2") has $free MiB free, the installation needs $1 MiB" "free some space and run 'make bootstrap' again"
  fi
}

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
    sed -n 's/^installed //p') || true
  printf '%s\n' "${packages[@]}" | grep -vxF "${installed:-none}" || true
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian system (no dpkg)" "taper is built and tested on Debian 12; a container of it will do"
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ((EUID)); then
    command -v sudo >/dev/null ||
      fail "installing packages needs root, and there is no sudo" "as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  require_space "$needed_mib" /usr
  say "installing Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2)
  # A source of the machine's own that is out of reach must not stop us; the installation tells.
  "${apt[@]}" update >>"$log" 2>&1 || true
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 </dev/null ||
    explain "apt-get could not install ${#missing[@]} packages"
}

# pip writes INSTALLER after all files of a package: an interrupted installation lacks it.
wheel_installed() { compgen -G ".venv/lib/python3*/site-packages/$1*.dist-info/INSTALLER" >/dev/null; }

install_wheel() {
  say "installing $1 in .venv ($2)"
  .venv/bin/python -m pip install --disable-pip-version-check --retries 2 --no-deps --only-binary :all: \
    --progress-bar off "$1" >>"$log" 2>&1 </dev/null || explain "pip could not install $1"
}

make_venv() {
  if [[ -L .venv && ! -e .venv ]]; then
    fail ".venv is a link to a folder that does not exist" "remove it and run 'make bootstrap' again"
  fi
  [[ -x .venv/bin/python && -d $(echo .venv/lib/python3*/site-packages/pip) ]] && return 0
  say "making the virtual environment .venv"
  /usr/bin/python3 -m venv .venv >>"$log" 2>&1 || explain "python3 could not make .venv"
}

# The folders of a toolkit that cmake/torch.cmake looks into.
cuda_toolkit_has() {
  local folder
  for folder in lib64 lib extras/CUPTI/lib64; do
    if compgen -G "/usr/local/cuda*/$folder/$1" >/dev/null; then
      return 0
    fi
  done
  return 1
}

install_torch() {
  if ! wheel_installed "torch-$torch_version"; then
    require_space "$needed_mib" .
    make_venv
    install_wheel "torch==$torch_version" "1.2 GB on disk, without its dependencies"
  fi
  if ! cuda_toolkit_has libcudart.so.13 && ! wheel_installed nvidia_cuda_runtime-13.0; then
    make_venv
    install_wheel "nvidia-cuda-runtime==$cuda_version" "libcudart.so.13, no CUDA toolkit has it"
  fi
  if ! cuda_toolkit_has libcupti.so.13 && ! wheel_installed nvidia_cuda_cupti-13.0; then
    make_venv
    install_wheel "nvidia-cuda-cupti==$cuda_version" "libcupti.so.13, no CUDA toolkit has it"
  fi
}

mkdir -p build 2>/dev/null || fail "cannot write to $PWD" "make the folder writable, or clone to another place"
: >"$log"
install_packages
install_torch
if [[ ! -s $log ]]; then
  say "everything is there"
fi
