#!/usr/bin/env bash
# plan.sh BUILD - `ddprun check --plan`: ranks that take turns have the bits of one process that plays all turns, in whole trainings:
# also where the last round stays open, and on a number of ranks that is no power of two. The plan's proofs are made again: a plan whose
# steps begin within a batch, or that gives memory a wrong class, is different; where no proof is possible nothing is said to be equal. Ranks that update in each batch, and plans
# without a gradient or with a gradient of another size, are different, and the verdict names the first tensor. A plan that is damaged, or
# does not fit the program, ends with one line and exit code 2. Nothing is written beside --json, and nothing is left.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
watch_leftovers
install_broken
cd "$work" || exit 1
head -n 1440 "$data" >digits.csv # 1152 of them to train with
digits=("$build/samples/digits_plain" --data digits.csv --batch 24 --quiet)

# by_plan NAME CODE CAUSE OPTIONS... PROGRAM...: with $program in place of ddprun, if it is set.
by_plan() {
    rm -f verdict.json
    run "${program:-$ddprun}" check -q --device softgpu --share-gpu --timeout 60 --json verdict.json "${@:4}"
    report "$1: exit code $2, $3" "$(why_not "$2" "$3" -)"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}

run "$ddprun" -q --device softgpu scout --prove --json plan.json "${digits[@]}" --steps 40
for n in 2 3; do
    by_plan "$n ranks" 0 null -n $n --plan plan.json "${digits[@]}" --steps $((30 * n + 1)) --save saved.par
    check "$n ranks: the same bits" grep -q 'compute what one process with all turns computes: the same bits in [0-9]* tensors, in 31 rounds' "$work/stdout"
done
check "what the program saves goes to private folders" test ! -e saved.par
by_plan "fewer rounds than are asked for" 0 null -n 2 --plan plan.json --steps 40 "${digits[@]}" --steps 60
check "and how many there are" grep -q -e '--steps asks for 40 steps, and the program ends after 30' "$work/stderr"

# edited FILE CODE: the plan, after these statements of Python.
edited() {
    python3 -IS -c 'import json, sys
plan = json.load(open("plan.json"))
memory = plan["turns"]["memory"]
gradients = [tensor for tensor in memory if tensor["role"] == "gradient"]
exec(sys.argv[2])
json.dump(plan, open(sys.argv[1], "w"))' "$1" "$2"
}
edited missing.json 'memory.remove(gradients[2])'
by_plan "a gradient that is missing" 1 plan -n 2 --plan missing.json --unproved "${digits[@]}" --steps 40
edited short.json 'gradients[0]["end"] -= 4'
by_plan "a gradient without its last element" 1 plan -n 2 --plan short.json --unproved "${digits[@]}" --steps 40
edited late.json 'plan["turns"]["reduce_before"] += 1'
by_plan "gradients that are averaged behind the first update" 1 plan -n 2 --plan late.json --unproved "${digits[@]}" --steps 40
if [ -e "$broken/lib/libddprun-scout.so" ]; then
    export DDPRUN_MUTANT=PLAN_UPDATE_EACH
    program=$broken/bin/ddprun by_plan "ranks that update in each batch" 1 plan -n 2 --plan plan.json "${digits[@]}" --steps 40
    export DDPRUN_MUTANT=SCOUT_PLAY_TENSOR_MISSING
    program=$broken/bin/ddprun by_plan "one process that leaves a gradient out" 1 plan -n 2 --plan plan.json "${digits[@]}" --steps 40
    unset DDPRUN_MUTANT
fi

# Ranks, and one process that takes steps where the plan does, have the same bits by each of these.
cuts=("$build/tests/tools/plan/cuts" predicts)
run "$ddprun" -q --device softgpu scout --by state --prove --json cut.json "${cuts[@]}" --steps 61
moved() { # NAME CHANGE K PATTERN
    "$build/tests/tools/plan/move_cut" cut.json "$2" "$3" moved.json
    by_plan "$1" 1 plan -n 2 --plan moved.json "${cuts[@]}" --steps 61
    check "$1: says why" grep -Eq "^different: $4" "$work/stdout"
}
moved "a step that begins within a batch" border 2 'proof \(d\) of the plan fails: after round 1 state .* differs from one process whose turns change where it writes state last'
moved "state that is called each rank's own" own 0 'proof \(complete\) of the plan fails: both halves of a batch change the same elements of memory of each rank'
by_plan "a plan as it was made" 0 null -n 2 --plan cut.json "${cuts[@]}" --steps 61
check "says what the proofs have seen" test "$(grep -cE '^proof \((complete|d)\): passed: ' "$work/stdout")" -eq 2
by_plan "too few steps for a proof" 3 plan -n 2 --plan cut.json "${cuts[@]}" --steps 4
check "says which proof" grep -q '^not comparable: proof (complete) of the plan is not possible here: ' "$work/stdout"
by_plan "too few steps, --unproved" 0 null -n 2 --plan cut.json --unproved "${cuts[@]}" --steps 4

# refused NAME PATTERN OPTIONS...
refused() {
    by_plan "$1" 2 null "${@:3}"
    check "$1: says why" grep -Eq -- "$2" "$work/stderr"
    check "$1: one line" test "$(wc -l <"$work/stderr")" -eq 1
}
refused "auto" 'ddprun check makes no plan' -n 2 --plan auto "${digits[@]}"
refused "no plan" 'cannot read the plan none.json' -n 2 --plan none.json "${digits[@]}"
edited damaged.json 'gradients[0]["role"] = "grad"'
refused "a damaged plan" 'the plan damaged.json was changed since it was made' -n 2 --plan damaged.json "${digits[@]}"
refused "a damaged plan, --unproved" 'is damaged: turns.role' -n 2 --plan damaged.json --unproved "${digits[@]}"
edited failed.json 'plan["proof"]["turns"]["end"] = "failed"'
refused "a plan whose proof failed" 'proof \(d\) of the plan failed.json: failed' -n 2 --plan failed.json "${digits[@]}"
refused "another batch of the reference" '--alone and --plan contradict' -n 2 --plan plan.json --alone "--batch 48" "${digits[@]}"
refused "sums" '--reduce sum and --plan contradict' -n 2 --plan plan.json --reduce sum "${digits[@]}"
refused "another program" 'no step of the plan began' -n 2 --plan plan.json "$build/samples/kmeans_plain"
finish
