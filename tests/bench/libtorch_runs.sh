#!/usr/bin/env bash
# libtorch_runs.sh BUILD - libtorch.sh runs, and prints the times of its four jobs and their ratios; a mistake on the command line gives one
# line and exit code 2. No time is judged.
set -euo pipefail
source "$(dirname "$0")/../lib/lib.sh"
build=$(cd "$1" && pwd)
bench=$(cd "$(dirname "$0")" && pwd)/libtorch.sh
work=$(mktemp -d)
at_exit 'rm -rf "$work"'
shown=$work/stderr
[ -x "$build/samples/torch_digits" ] || skip "no libtorch was found when the build was configured (Debian: libtorch-dev)"

# run WORD...: output in $work/stdout and $work/stderr, exit code in $code.
run() {
    code=0
    timeout "$(patient 120)" bash "$bench" "$@" </dev/null >"$work/stdout" 2>"$work/stderr" || code=$?
}
refuses() {
    local name=$1
    shift
    run "$@"
    check "$name: exit code 2" [ "$code" -eq 2 ]
    check "$name: one line" [ "$(wc -l <"$work/stderr")" -eq 1 ]
    check "$name: nothing is measured" [ ! -s "$work/stdout" ]
}

run --help
check "--help: exit code 0, and the options" bash -c "[ $code -eq 0 ] && grep -q -e '--rounds' '$work/stdout'"
refuses "no build folder"
refuses "a folder without a build" "$work"
refuses "an unknown option" "$build" --no-such-option 1
refuses "an option without its value" "$build" --rounds
refuses "no round" "$build" --rounds 0

# The eight rows of a size; of one round the three values are the same, and ratios are those of the times.
has_figures() {
    sed 1,2d "$work/stdout" | awk '
        function is_near(value, wanted) { return value > 0.99 * wanted && value < 1.01 * wanted }
        { value[NR] = $(NF - 1); wrong = wrong || $(NF - 3) != $(NF - 2) || $(NF - 2) != $(NF - 1) || $NF != (NR <= 4 ? "ms" : "ratio") }
        NR <= 4 && value[NR] <= 0 { wrong = 1 }
        END {
            exit wrong || NR != 8 || !is_near(value[5], value[2] / value[1]) || !is_near(value[6], value[4] / value[3]) ||
                 !is_near(value[8], value[2] / value[4])
        }'
}
if in_turn 4; then
    run "$build" --rounds 1 --epochs 1 --hidden 48
    [ "$code" -ne 77 ] || skip "$(cat "$work/stdout")"
    check "one round: exit code 0" [ "$code" -eq 0 ]
    check "one round: eight figures" has_figures
fi
finish
