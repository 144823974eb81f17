#!/usr/bin/env bash
# Proves the set-up from nothing: makes a bare Debian 12 root that has only make, git and certificates, clones this
# repository into it and runs make targets there with an empty environment. As root, with debootstrap; not in CI.
#
#   tools/fresh_machine.sh [--keep | --in ROOT] [TARGET...]    targets of make, one stage each; default: demo test
#
# --keep leaves the root where it is at the end; --in goes on in a root kept before, with a new clone.
# Packages come from where this machine gets its own (apt's and pip's configuration are carried over); what is not
# committed is not tested. The root lies under ${TMPDIR:-/var/tmp} and is removed at the end.
set -euo pipefail

readonly release=bookworm
readonly needed_gib=4

fail() {
  echo "error: $1" >&2
  echo "  $2" >&2
  exit 1
}

((EUID == 0)) || fail "a root of its own needs root" "run it with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is not installed" "apt-get install debootstrap"
# In a mount namespace of its own, the mounts go when this process goes, however it ends.
if [[ ${1:-} != --in-namespace ]]; then
  exec unshare --mount --propagation private -- "$0" --in-namespace "$@"
fi
shift
keep=0
root=""
if [[ ${1:-} == --keep ]]; then
  keep=1
  shift
elif [[ ${1:-} == --in ]]; then
  keep=1
  root=${2:-}
  [[ -d $root/root/taper ]] || fail "no fresh machine in '$root'" "make one with --keep"
  shift 2
fi
targets=("$@")
((${#targets[@]})) || targets=(demo test)

repository=$(cd "$(dirname "$0")/.." && git rev-parse --show-toplevel)
fresh=0
if [[ -z $root ]]; then
  fresh=1
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/taper-fresh.XXXXXX")
fi
stages=()

finish() {
  local mount
  for mount in dev/shm sys proc; do
    mountpoint -q "$root/$mount" && umount -l "$root/$mount"
  done
  if ((keep)); then
    echo "fresh machine: kept in $root"
  else
    rm -rf --one-file-system "$root"
  fi
  printf '%s\n' "${stages[@]}"
}
trap finish EXIT
trap 'exit 130' INT TERM

# stage NAME COMMAND...: runs it, notes its time; a failure ends the run.
stage() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "fresh machine: $name"
  "$@" || status=$?
  stages+=("$(printf 'fresh machine: %-24s %5d s  %s' "$name" $((SECONDS - start)) \
    "$( ((status)) && echo "FAILED ($status)" || echo ok)")")
  ((status == 0)) || exit "$status"
}

# This machine's own Debian sources, as lines of a sources.list.
debian_sources() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
    grep -E " $release(-updates|-security)? " | sort -u
}

make_root() {
  local mirror
  mirror=$(awk -v release="$release" '$3 == release {print $2; exit}' <<<"$sources")
  debootstrap --variant=minbase --include=make,git,ca-certificates "$release" "$root" "$mirror" \
    >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; return 1; }
  rm -f "$root.log"
}

# Copies each file named to the same place inside.
carry() {
  local file
  for file in "$@"; do
    if [[ -f $file ]]; then
      mkdir -p "$root$(dirname "$file")"
      cp -L "$file" "$root$file"
    fi
  done
}

# The network, apt and pip inside work as they do here: same sources, proxies and certificates.
configure_root() {
  local settings
  carry /etc/resolv.conf /etc/hosts /etc/pip.conf /root/.config/pip/pip.conf /root/.pip/pip.conf \
    /etc/ssl/certs/ca-certificates.crt
  printf '%s\n' "$sources" >"$root/etc/apt/sources.list"
  settings=$(apt-config dump | grep -E '^Acquire::(https?::|Retries|Check-|ForceIP)' || true)
  printf '%s\n' "$settings" >"$root/etc/apt/apt.conf.d/90fresh-machine"
  mapfile -t files < <(grep -ohE '"/[^"]+"' <<<"$settings" | tr -d '"')
  carry "${files[@]}" "${PIP_CERT:-}" "${PIP_CONFIG_FILE:-}" "${PIP_CLIENT_CERT:-}"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mkdir -p "$root/dev/shm"
  mount -t tmpfs tmpfs "$root/dev/shm"
}

# inside COMMAND...: in the new root, with an empty environment but for the way to the package index.
inside() {
  local kept=()
  mapfile -t kept < <(env | grep -E '^(PIP_[A-Z_]+|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)=' || true)
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${kept[@]}" \
    chroot "$root" "$@" </dev/null
}

clone() {
  git -C "$repository" bundle create -q "$root/root/taper.bundle" HEAD
  rm -rf "$root/root/taper"
  inside git -c advice.detachedHead=false clone -q /root/taper.bundle /root/taper
}

free_gib=$(($(df -Pk "$root" | awk 'NR == 2 {print $4}') / 1024 / 1024))
((free_gib >= needed_gib || !fresh)) || fail "$root has $free_gib GiB free, a fresh machine needs $needed_gib" \
  "free some, or set TMPDIR to a larger disk"
sources=$(debian_sources)
[[ -n $sources ]] || fail "apt on this machine knows no source of Debian's $release" "run apt-get update, then try again"
[[ -z $(git -C "$repository" status --porcelain --untracked-files=no) ]] ||
  echo "fresh machine: changes that are not committed are not tested"

if ((fresh)); then
  stage "debootstrap" make_root
fi
stage "configure" configure_root
stage "clone" clone
for target in "${targets[@]}"; do
  stage "make $target" inside make -C /root/taper "$target"
done
