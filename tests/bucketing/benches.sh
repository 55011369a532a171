#!/usr/bin/env bash
# benches.sh BUILD - bench/partition is arithmetic and repeats to the last digit: the plan of buckets stays within its bar on every
# model; mistakes on the command line end with 2, data that cannot be read with 1 and a line that names the file.
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'benches.sh: %s\n' "$*" >&2
    exit 1
}

timeout -k 1 120 "$build/bench/partition" --trials 5 >"$folder/partition"
[ "$(grep -c ' >= 0.9 *yes$' "$folder/partition")" -eq 5 ] || fail 'the plan misses its bar on some model'

code=0
"$build/bench/partition" --no-such-option >"$folder/out" 2>&1 || code=$?
[ "$code" -eq 2 ] || fail "it takes an unknown option: exit code $code"
"$build/bench/partition" --help | grep -q Usage || fail 'it has no help'
printf 'batch 1\ntflops 1\nleast_us 1\nweight many 3\n' >"$folder/resnet50.model"
code=0
BENCH_DATA=$folder "$build/bench/partition" >"$folder/out" 2>&1 || code=$?
[ "$code" -eq 1 ] && grep -q 'resnet50.model:4' "$folder/out" || fail "it takes a broken file: exit code $code"
