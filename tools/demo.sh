#!/usr/bin/env bash
# The whole path on real text: tokenizer, data, a baseline and its tapered twin, the fold and its proof, the
# losses, the decoding speeds, a sample, a table and a page. Everything lands in runs/demo.
#
# Each step leaves a file that appears only when the step is done, and is skipped when that file is there: a
# second call goes on where the first one ended. Ctrl-C saves a checkpoint in training.
#
# TEXT=path takes a text of yours (documents separated by <|endoftext|> lines), PROMPT=words its first words.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly taper=build/release/bin/taper
readonly demo=runs/demo
readonly results=$demo/results
readonly data=$demo/data
readonly baseline_config=configs/demo-baseline.toml
readonly taper_config=configs/demo-taper.toml
readonly vocab_size=4096
readonly valid_fraction=0.05
readonly steps=11

step_number=0
step_label=""
worked=false
partial=""

fail() {
  echo "error: $*" >&2
  exit 2
}

# Runs at the end, however it comes: the time spent counts, also on an unfinished step, whose output goes.
at_exit() {
  local status=$?
  if [[ -n $partial ]]; then rm -f "$partial"; fi
  if $worked; then echo "$SECONDS" >>"$demo/seconds"; fi
  if ((status == 130)); then
    echo "demo: interrupted at: $step_label; 'make demo' goes on from here" >&2
  elif ((status != 0)) && [[ -n $step_label ]]; then
    echo "demo: stopped at: $step_label; once that is mended, 'make demo' goes on from here" >&2
  fi
  exit "$status"
}

# step LABEL DONE_FILE: announces a step; false when its file is there.
step() {
  step_number=$((step_number + 1))
  [[ ! -e $2 ]] || return 1
  step_label=$1
  worked=true
  printf '[%2d/%d] %s\n' "$step_number" "$steps" "$1" >&2
}

# to_file FILE COMMAND...: the command's output becomes FILE, all or nothing.
to_file() {
  partial=$1.tmp
  "${@:2}" >"$partial"
  mv "$partial" "$1"
  partial=""
}

json() { to_file "$@" --json; }

# Text and recipes decide what every later file holds: a change of them needs a fresh folder.
check_inputs() {
  local now
  now=$(cksum <"$demo/text.txt" && cksum "$baseline_config" "$taper_config")
  if [[ ! -f $demo/inputs ]]; then
    echo "$now" >"$demo/inputs"
  elif [[ $(<"$demo/inputs") != "$now" ]]; then
    fail "$demo was made from another text or recipe: remove it (rm -r $demo) and run 'make demo' again"
  fi
}

# train CONFIG RUN: goes on from the last checkpoint, or starts anew when there is none.
train() {
  local resume=()
  if [[ -f $2/checkpoints/latest ]]; then
    resume=(--resume)
  else
    rm -rf "$2"
  fi
  "$taper" train "$1" --out "$2" "${resume[@]}" >&2
  touch "$2/done"
}

first_words() {
  if [[ -n ${PROMPT:-} ]]; then
    echo "$PROMPT"
  elif [[ -z ${TEXT:-} ]]; then
    echo "And it came to pass"
  else
    awk 'NF >= 3 { print $1, $2, $3; exit }' "$demo/text.txt"
  fi
}

[[ -x $taper ]] || fail "$taper is missing: run 'make build'"
for config in "$baseline_config" "$taper_config"; do
  [[ -f $config ]] || fail "$config is missing"
done
mkdir -p "$results" || fail "cannot write to $demo"
trap at_exit EXIT
trap 'exit 130' INT

if [[ -n ${TEXT:-} ]] || [[ ! -e $demo/text.txt ]]; then
  step "take the text" "$demo/none"
  new_text=$demo/text.new
  tools/demo_text.sh "$new_text"
  if [[ -e $demo/text.txt ]] && ! cmp -s "$new_text" "$demo/text.txt"; then
    rm -f "$new_text"
    fail "$demo was made from another text: remove it (rm -r $demo) and run 'make demo' again"
  fi
  mv "$new_text" "$demo/text.txt"
else
  step_number=1
fi
check_inputs

if step "train the tokenizer" "$demo/tokenizer.json"; then
  "$taper" tokenizer train --input "$demo/text.txt" --vocab-size "$vocab_size" --out "$demo/tokenizer.json" >&2
fi
if step "encode the text" "$results/data.json"; then
  json "$results/data.json" "$taper" data prepare --tokenizer "$demo/tokenizer.json" \
    --input "$demo/text.txt" --out "$data" --valid-fraction "$valid_fraction"
fi
if step "train the baseline, with its norms" "$demo/baseline/done"; then
  train "$baseline_config" "$demo/baseline"
fi
if step "train its twin and taper the norms away" "$demo/taper/done"; then
  train "$taper_config" "$demo/taper"
fi
if step "fold the tapered norms, checked on held-out text" "$results/fold.json"; then
  rm -rf "$demo/folded"
  json "$results/fold.json" "$taper" fold "$demo/taper" "$demo/folded" --verify-data "$data/valid.tok"
fi
if step "measure the loss of the baseline" "$results/eval-baseline.json"; then
  json "$results/info.json" "$taper" info "$demo/baseline"
  json "$results/eval-baseline.json" "$taper" eval "$demo/baseline" --data "$data/valid.tok"
fi
if step "measure the loss of the tapered model at g = 0" "$results/eval-tapered.json"; then
  json "$results/eval-tapered.json" "$taper" eval "$demo/taper" --data "$data/valid.tok" --gate 0
fi
if step "measure the loss of the folded model" "$results/eval-folded.json"; then
  json "$results/eval-folded.json" "$taper" eval "$demo/folded" --data "$data/valid.tok"
fi
if step "time decoding, the three in turn" "$results/bench.json"; then
  json "$results/bench.json" "$taper" bench decode "baseline=$demo/baseline" \
    "explicit=$demo/taper:gate=0" "folded=$demo/folded"
fi
if step "write with the folded model" "$results/sample.txt"; then
  to_file "$results/sample.txt" "$taper" generate "$demo/folded" --prompt "$(first_words)" -n 160 \
    --temperature 0.7 --top-p 0.95 --seed 1
fi

step_label="report"
total=$(awk '{ sum += $1 } END { print sum + 0 }' "$demo/seconds" 2>/dev/null) || total=0
if $worked; then total=$((total + SECONDS)); fi
echo >&2
"$taper" report "$demo/baseline" "$demo/taper" --results "$results" --summary "$demo/summary.json" \
  --seconds "$total" --out "$demo/report.html" --title "taper demo"
