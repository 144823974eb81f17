#!/usr/bin/env bash
# Checks the form of all tracked sources: file sizes, layers, format, and clang-tidy.
# Runs every check, then exits 1 if any failed. The format of a file is mended by: clang-format -i FILE
#
# usage: tools/lint.sh [--quick]    --quick leaves clang-tidy out: seconds instead of ten minutes
set -uo pipefail
cd "$(dirname "$0")/.."

readonly max_lines=600
failed=0

# check NAME COMMAND...
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    echo "lint: $name: ok ($((SECONDS - start)) s)"
  else
    echo "lint: $name: FAILED ($((SECONDS - start)) s)" >&2
    failed=1
  fi
}

sources() { git ls-files -- '*.cpp' '*.h' '*.cu' | while read -r file; do [[ -f $file ]] && echo "$file"; done; }

check_sizes() {
  local file lines bad=0
  while read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > max_lines)); then
      echo "error: $file has $lines lines, more than $max_lines: split it by subject" >&2
      bad=1
    fi
  done < <(sources; git ls-files -- '*.py' '*.sh' '*.cmake' Makefile CMakeLists.txt)
  return "$bad"
}

# One line a place, without the source that clang-format quotes.
check_format() {
  local found
  found=$(sources | xargs -r clang-format --dry-run -Werror 2>&1 | grep -E '^[^ ].*: error: ')
  [[ -z $found ]] || { echo "$found" >&2; return 1; }
}

check_tidy() {
  if [[ ! -f build/release/compile_commands.json ]]; then
    mkdir -p build
    cmake --preset release >build/release.log 2>&1 || { cat build/release.log; return 1; }
  fi
  tools/tidy.py build/release
}

check "file sizes" check_sizes
check "include rule" tools/check_includes.py
check "clang-format" check_format
[[ ${1:-} == --quick ]] || check "clang-tidy" check_tidy
exit "$failed"
