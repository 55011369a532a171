#!/usr/bin/env bash
# statistics.sh BUILD - running statistics that are annotated as parameters are named so, by `ddprun check` and by a job, also beside
# gradients of theirs that hold zeros; an annotation before its initialisation and a DDP_STEP behind the optimizer keep their words.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
program=$build/tests/tools/check/statistics

# says MODE CAUSE IN_CHECK IN_JOB: extended regular expressions.
says() {
    checked 2 "" "$program" "$1"
    report "check: $1" "$(why_not 1 "$2" "$(case $1 in late | behind) echo scale ;; *) echo 'mean|square' ;; esac)")$(
        grep -Eq "$3" "$work/stdout" || echo "$(tail -n 2 "$work/stdout"), not /$3/")"
    run "$ddprun" -n 2 "$program" "$1"
    check "a job: $1" [ "$code" -eq 1 ] # besides the line that says that gradients seem to be missing
    check "a job: $1: what it says" grep -Eq "^ddprun: parameter .* at the first DDP_STEP$4" "$work/stderr"
}

checked 2 "" "$program" nothing
report "check: statistics that are annotated as nothing" "$(why_not 0 null -)"
works "a job: statistics that are annotated as nothing" "$ddprun" -n 2 "$program" nothing
for mode in running unwritten zeroed; do
    says "$mode" tensor '^what to do: if forward writes this memory .running statistics., annotate it with DDP_BUFFER' ': it has no gradient, or a gradient of zeros\. Running statistics.* DDP_BUFFER'
done
says late start 'it must come after the initialisation' ': its annotation stands before its initialisation'
says behind update 'call DDP_STEP between backward and' ': its annotation .*, or the optimizer ran before DDP_STEP'
finish
