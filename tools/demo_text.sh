#!/usr/bin/env bash
# Writes the demo's text to OUT: the file $TEXT when it is set, else the King James Bible of Debian's
# package bible-kjv (public domain, 4.4 MB). Verse labels go; a chapter becomes one document of running
# text, and documents are separated by <|endoftext|> lines: about 900 tokens each, longer than the demo
# model's window, short enough that a held-out share samples the whole book.
#
# usage: tools/demo_text.sh OUT
set -euo pipefail

fail() {
  echo "error: $*" >&2
  exit 2
}

[[ $# -eq 1 ]] || fail "usage: tools/demo_text.sh OUT"
out=$1
temporary=$out.tmp-$$
trap 'rm -f "$temporary"' EXIT

if [[ -n ${TEXT:-} ]]; then
  [[ -f $TEXT && -r $TEXT ]] || fail "TEXT=$TEXT is not a readable file"
  [[ -s $TEXT ]] || fail "TEXT=$TEXT is empty"
  mkdir -p "$(dirname "$out")"
  cp -- "$TEXT" "$temporary" || fail "cannot copy $TEXT to $out"
else
  command -v bible >/dev/null ||
    fail "the program 'bible' is missing: run 'make bootstrap' (package bible-kjv), or give a text: make demo TEXT=path"
  mkdir -p "$(dirname "$out")"
  # A line is "1Sm3:4 text": book, chapter, verse.
  bible -f "gen1:1-rev22:21" | awk '
    !match($0, /^[0-9]*[A-Za-z]+[0-9]+:[0-9]+ /) {
      print "error: verse without a label at line " NR ": " $0 > "/dev/stderr"
      exit 1
    }
    {
      label = substr($0, 1, RLENGTH)
      chapter = substr(label, 1, index(label, ":") - 1)
      verse = substr($0, RLENGTH + 1)
      if (chapter == last) { printf " %s", verse; next }
      if (NR > 1) printf "\n<|endoftext|>\n"
      printf "%s", verse
      last = chapter
    }
    END { if (NR > 0) printf "\n" }' >"$temporary" || fail "could not read the text of package bible-kjv"
  [[ -s $temporary ]] || fail "package bible-kjv gave no text: reinstall it, or give a text: make demo TEXT=path"
fi
mv -- "$temporary" "$out"
