#!/usr/bin/env bash
# overlap.sh BUILD - overlap.py runs, and prints for each size of gradients the times of its three jobs and their ratios; a mistake on the
# command line gives one line and exit code 2, and a job that fails exit code 1; the trainer notices means that are wrong. No time is
# judged: layers are short here.
set -euo pipefail
source "$(dirname "$0")/../lib/lib.sh"
build=$(cd "$1" && pwd)
bench=$(cd "$(dirname "$0")" && pwd)/overlap.py
work=$(mktemp -d)
at_exit 'rm -rf "$work"'
shown=$work/stderr
command -v python3 >/dev/null || skip "no python3"

# run COMMAND...: its output in $work/stdout and $work/stderr, its exit code in $code.
run() {
    code=0
    timeout "$(patient 60)" "$@" </dev/null >"$work/stdout" 2>"$work/stderr" || code=$?
}

# refuses NAME WORD...: exit code 2, one line on stderr, nothing on stdout.
refuses() {
    local name=$1
    shift
    run python3 "$bench" "$@"
    check "$name: exit code 2" [ "$code" -eq 2 ]
    check "$name: one line" [ "$(wc -l <"$work/stderr")" -eq 1 ]
    check "$name: nothing is measured" [ ! -s "$work/stdout" ]
}

# figure NAME: minimum, median and maximum of a row, and its unit.
figure() {
    sed -n "s|^$1  *||p" "$work/stdout"
}

# has SIZE: the six rows of a size; of one repetition the three values are the same, and ratios are those of the times.
has() {
    { figure "$1: step of one rank" && figure "$1: step with --no-overlap" && figure "$1: step with overlap" &&
        figure "$1: --no-overlap over overlap" && figure "$1: --no-overlap over one rank" && figure "$1: overlap over one rank"; } |
        awk '
            function is_near(value, wanted) { return value > 0.99 * wanted && value < 1.01 * wanted }
            NF != 4 || $1 <= 0 || $1 != $2 || $2 != $3 || $4 != (NR <= 3 ? "ms" : "ratio") { wrong = 1 }
            { value[NR] = $2 }
            END {
                exit wrong || NR != 6 || !is_near(value[4], value[2] / value[3]) || !is_near(value[5], value[2] / value[1]) ||
                     !is_near(value[6], value[3] / value[1])
            }'
}

run python3 "$bench" "$build" --runs 1 --steps 6 --layer-us 500
check "one repetition: exit code 0" [ "$code" -eq 0 ]
check "one repetition: a line of conditions, one of columns, six rows for each size" [ "$(wc -l <"$work/stdout")" -eq 14 ]
check "one repetition: 0.5 MiB" has "0.5 MiB"
check "one repetition: 32 MiB" has "32 MiB"

run python3 "$bench" --help
check "--help: exit code 0, and the options" bash -c "[ $code -eq 0 ] && grep -q -e '--layer-us' '$work/stdout'"
refuses "no build folder"
refuses "an unknown option" "$build" --no-such-option
refuses "no repetition" "$build" --runs 0
refuses "one rank alone" "$build" --ranks 1
refuses "an unknown device" "$build" --device tpu
refuses "a folder without a build" "$work"

mkdir -p "$work/fails/bin" "$work/fails/bench"
printf '#!/bin/sh\necho "no GPU" >&2\nexit 3\n' >"$work/fails/bin/ddprun"
cp "$build/bench/overlap_rank" "$work/fails/bench/"
chmod +x "$work/fails/bin/ddprun"
run python3 "$bench" "$work/fails" --runs 1
check "a job that fails: exit code 1, and why" bash -c "[ $code -eq 1 ] && grep -q 'exit code 3' '$work/stderr' && grep -q 'no GPU' '$work/stderr'"

run "$build/bin/ddprun" -q -n 2 --reduce sum "$build/bench/overlap_rank" --steps 4 --layer-us 100
check "sums in place of means: exit code 3" [ "$code" -eq 3 ]
run "$build/bench/overlap_rank" --on device --steps 2 --layers 1 --kib 1 --layer-us 1 --forward-us 0
check "layers that compute: a time" bash -c "[ $code -eq 0 ] && grep -q '^step [0-9.]* ms\$' '$work/stdout'"
finish
