#!/usr/bin/env bash
# Installs the Debian 12 packages that the work needs, and only those that are missing, with apt-get (through sudo
# when not root). With nothing to do it takes a fraction of a second and no network. Every failure is one line and a
# next step.
#
# usage: tools/bootstrap.sh [lint | bench]
#
# Without an argument: for building, the tests and the demo; in addition lint: for `make lint`; bench: for
# `make bench-setup`.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly log=build/bootstrap.log

# Tools; libraries; the text of the demo: 360 MB on a bare Debian.
packages=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  libcli11-dev libdnnl-dev libfmt-dev libhwy-dev libtomlplusplus-dev libutf8proc-dev libxxhash-dev
  nlohmann-json3-dev libgtest-dev libgmock-dev
  bible-kjv
)
needed_mib=600
case ${1:-} in
  "") ;;
  lint)  # 300 MB more
    packages+=(clang-format clang-tidy python3)
    needed_mib=1000 ;;
  bench)  # python3-dev: torch.compile includes Python.h
    packages+=(python3 python3-venv python3-dev)
    needed_mib=800 ;;
  *)
    echo "usage: tools/bootstrap.sh [lint | bench]" >&2
    exit 2 ;;
esac
readonly packages needed_mib

say() { echo "bootstrap: $*"; }

# fail WHAT NEXT-STEP
fail() {
  echo "error: $1" >&2
  echo "  $2" >&2
  exit 1
}

# The line of the log that explains a failure best.
reason() { grep -E '^(E:|Err:)|No space left' "$log" | tail -n 1 || true; }

# explain WHAT: ends the run with the cause found in the log.
explain() {
  if grep -q 'No space left' "$log"; then
    fail "$1: no space left on the disk" "free $needed_mib MiB and call it again"
  elif grep -qE 'Could not resolve|name resolution|Could not connect|Connection timed out|Network is unreachable' "$log"; then
    fail "$1: no network" "connect, or set a proxy or mirror for apt, and call it again"
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
    fail "$(realpath "$2") has $free MiB free, the installation needs $1 MiB" "free some space and call it again"
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

mkdir -p build 2>/dev/null || fail "cannot write to $PWD" "make the folder writable, or clone to another place"
: >"$log"
install_packages
if [[ ! -s $log ]]; then
  say "everything is there"
fi
