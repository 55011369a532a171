#!/usr/bin/env bash
# evidence.sh BUILD [FIRST LAST] - what `ddprun scout` finds where numbers show little of what kernels do (evidence.cu): sparse gradients and tiny numbers are
# found as they are annotated; what may be a parameter that was missed is asked about, and accepted when the user names it; of random nets none is found
# otherwise without a word, and at most 8 of 100 are refused, but for those of which half of the units are dead: of their weights it is asked whether they are
# trained. A recorder that changes any words, or takes words that it cannot change for left alone, is seen.
#
# Ordinarily seeds 1 to 40 of random nets; with DDPRUN_SOAK=1, 1 to 500.
source "$(dirname "$0")/../../end_to_end/lib.sh"
first=${2:-1}
last=${3:-$((${DDPRUN_SOAK:-0} == 1 ? 500 : 40))}
# shellcheck source=tests/tools/scout/rows.sh
source "$(dirname "$0")/rows.sh"
evidence=tests/tools/scout/evidence
install_broken
export MATRIX_DESCRIBE=1

# gives NAME VERDICT: the trainer with these words ended so.
gives() {
    shown=$work/out-$1.err
    check "$1: $2" grep -q "^$2" "$work/verdict-$1"
    shown=
}

programs=("sparse 8 3" "sparse 20 4" "sparse 100 5" "sparse 1000 6" "tiny 1 3" "tiny 20 4" "tiny 60 5" "tiny 150 6" pointers)
{
    printf '%s\n' "${programs[@]}" row stale
    seq -f 'random %g' "$first" "$last"
} | sed "s,.*,&|$evidence &," | rows_run verdict
for program in "${programs[@]}"; do
    gives "$program" right
done
gives row refused
if [ -z "${SOFTGPU_UNRULY:-}" ]; then
    check "it says what may be averaged" grep -q '^note: update_row computes .* from its old value and from data in one launch: .* DDP_STEP_PARAMETERS' \
        "$work/out-row"
else # its blocks read rows that other blocks write: two launches differ by more than rounding
    check "it says that no launch repeats" grep -q 'the same launch twice gives different results: update_row' "$work/out-row.err"
fi
gives stale refused
check "it says which memory, and where it is allocated" grep -Eq 'trained, or carried from batch to batch\? a6 \([^()]*, 6144 bytes, allocated at evidence.cu:[0-9]+.*\): it is written as parameters are' "$work/out-stale.err"
check "no line to add is printed" test "$(grep -c '^lines to add' "$work/out-stale")" -eq 0
run "$ddprun" -q --device softgpu scout -v --per-rank a6,a15 --json "$work/plan" "$build/$evidence" stale
check "what is trained is no rank's own, whatever the user says" test "$code" -eq 1
check "the plan is not found, and has its suspects" test "$(grep -Ec '"found":false|"role":"suspect"' "$work/plan")" -eq 3
run "$ddprun" -q --device softgpu scout -v --per-rank a1 "$build/$evidence" stale
check "memory of which there is no question" grep -q -- '--per-rank a1 names memory that scout does not ask about' "$work/stderr"
check "is a wrong option" test "$code" -eq 2

right=0 living=0 refused=0
for ((seed = first; seed <= last; seed++)); do
    shown="$work/out-random $seed" verdict=$(cat "$work/verdict-random $seed")
    report "random $seed: $verdict" "$([[ $verdict == @(right|refused)* ]] || grep -q '^note: ' "$shown" || echo wrong)"
    [[ $verdict != right* ]] || right=$((right + 1))
    grep -Eq '^[0-9]+: .* dead ' "$shown.err" && continue
    living=$((living + 1))
    [[ $verdict != refused* ]] || refused=$((refused + 1))
done
shown=
printf '# %d of %d right; %d of %d without dead units refused\n' "$right" "$((last - first + 1))" "$refused" "$living"
check "at most 8 of 100, and one more, are refused" test $((refused * 100)) -le $((living * 8 + 100))
check "eight of ten are right" test $((right * 10)) -ge $(((last - first + 1) * 8))

# The last: updates by nothing but the sign of the gradient: numbers that keep theirs do not show them.
export scouts=$broken/bin/ddprun
is_right() { # MUTANT PROGRAM
    [[ $(DDPRUN_MUTANT=$1 verdict broken "tests/tools/scout/$2") == right* ]]
}
while read -r mutant program; do
    check "the recorder that can be broken, $program" is_right none "$program"
    report "$mutant is seen" "$(is_right "$mutant" "$program" && echo "it is right")"
done <<'END'
SCOUT_ANY_WORDS evidence sparse 20 4
SCOUT_NOT_TRIED_ALONE evidence tiny 150 6
SCOUT_SIGNS_STAY public_updates rprop
END
finish
