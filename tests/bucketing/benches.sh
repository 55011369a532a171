#!/usr/bin/env bash
# benches.sh BUILD - the benchmarks of plans, which are arithmetic and repeat to the last digit: the plan of buckets stays
# within its bar on every model; mistakes on the command line end with 2, data that cannot be read with 1 and a line that names the file.
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
grep -q '^PREDICTION' <<<"$("$build/bench/scale")" || fail 'scale does not say that it predicts'

for bench in partition scale; do
    code=0
    "$build/bench/$bench" --no-such-option >"$folder/out" 2>&1 || code=$?
    [ "$code" -eq 2 ] || fail "$bench takes an unknown option: exit code $code"
    "$build/bench/$bench" --help | grep -q Usage || fail "$bench has no help"
    printf 'batch 1\ntflops 1\nleast_us 1\nweight many 3\n' >"$folder/resnet50.model"
    code=0
    BENCH_DATA=$folder "$build/bench/$bench" >"$folder/out" 2>&1 || code=$?
    [ "$code" -eq 1 ] && grep -q 'resnet50.model:4' "$folder/out" || fail "$bench takes a broken file: exit code $code"
done
