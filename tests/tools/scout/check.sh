#!/usr/bin/env bash
# check.sh BUILD - where all is equal, `ddprun check` holds the annotations against what a scouted run finds, and names what nothing
# compared depends on: a moving average of what only one rank has.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
steps=(--steps 4)

# verdict NAME CODE WORDS...: `ddprun check WORDS...` ends with CODE and leaves nothing.
verdict() {
    local name=$1 expected=$2
    shift 2
    run "$ddprun" check "${steps[@]}" "$@"
    check "$name: exit code $expected" test "$code" -eq "$expected"
    check "$name: leaves nothing" test -z "$(ls -A "$TMPDIR")"
}

trainer=("$build/tests/tools/check/rows" report --steps 12 --optimizer momentum)
if [ "$sanitized" -eq 0 ]; then # whose runs take too long beside the others
    verdict "an early average" 0 "$build/tests/tools/scout/public_nets" early
    check "an early average: it is named" grep -Eq '^not compared: [0-9]+ elements that `move_average.*: a moving average' "$work/stdout"
    verdict "right annotations" 0 "${trainer[@]}"
    check "right annotations: nothing is missing" test "$(grep -cE '^missing: |the host reads' "$work/stdout")" -eq 0
    verdict "a loss without DDP_MEAN" 0 "${trainer[@]}" --mistake own_loss
    check "its read is named" grep -Eq '^not compared: values that the host reads at rows.cu:[0-9]+ .* needs DDP_MEAN or DDP_REDUCE$' "$work/stdout"
    verdict "a count without DDP_REDUCE, beside a DDP_MEAN" 0 "${trainer[@]}" --mistake own_count
    check "the reads are named" grep -Eq '^not compared: values that the host reads at rows.cu:[0-9]+.*, rows.cu:[0-9]+.* needs' "$work/stdout"
    verdict "norms below the bound in these steps, clipped before DDP_STEP" 0 "${trainer[@]}" clip_before_step --bound 1e3
    check "the place is named" grep -Eq \
        '^missing: DDP_STEP \(rows.cu:[0-9]+\) stands elsewhere: it belongs after bias_gradient \(rows.cu:[0-9]+\) and before add_squares \(rows.cu:[0-9]+\)$' \
        "$work/stdout"
    check "what to do is said, and not to run it" test "$(grep '^what to do' "$work/stdout" | cut -c1-35)" = 'what to do: annotate what is missin'
    verdict "a bound that is never reached, clipped after DDP_STEP" 0 "${trainer[@]}" clip
    check "nothing is missing" test "$(grep -c '^missing: ' "$work/stdout")" -eq 0
    verdict "a parameter without an annotation, whose gradient has one" 0 "${trainer[@]}" --mistake forgotten_parameter
    check "it is named, with its allocation" grep -Eq '^missing: DDP_PARAMETER for 80 elements \(float32\) of the memory allocated at frame.h:[0-9]+' "$work/stdout"
    run "$ddprun" scout "${trainer[@]}" --mistake forgotten_gradient
    check "scout itself names the allocation, too" grep -Eq '^missing: DDP_GRADIENT for 80 elements \(float32\) of the memory allocated at frame.h:[0-9]+' "$work/stdout"
    for habit in own fused; do
        run "$ddprun" scout "$build/tests/tools/scout/border" $habit short
        check "$habit: all of a parameter but its last element: what is missing is named" grep -Eq '^missing: DDP_PARAMETER for 1 of 640 elements \(float64\) of the memory allocated at border.cu:' "$work/stdout"
    done
    for program in accumulate managed; do # the second cannot be scouted; the host may update it
        verdict "$program, of which it cannot be told" 0 "$build/tests/matrix/${program}_shared"
        check "$program: nothing is missing or superfluous" test "$(grep -cE '^(missing|superfluous): ' "$work/stdout")" -eq 0
    done
    verdict "why it cannot be told" 0 "$build/tests/matrix/accumulate_shared" --steps 6
    check "is said" grep -q '^not exercised: the search of ddprun scout for missing annotations: the program ended before' "$work/stdout"
    verdict "an update of less than rounding, by which periods disagree" 0 "$build/tests/tools/check/jury/nets" statistics_own --rate 1e-6
    check "what nothing depends on is named" grep -q '^not compared: [0-9]* elements that `subtract_running` writes.*: results of the rank.s share' "$work/stdout"
fi
verdict "--per-rank, without a plan to make" 2 --per-rank a1 "${trainer[@]}"
finish
