#!/usr/bin/env bash
# prove.sh BUILD - what `ddprun scout --prove` says of plans: right ones pass on two ranks under the engine, without a change of the
# program; a plan without one tensor, without one element, that averages one operation too late, or as another type, fails, and names
# the tensor; what cannot be played is said to be so. The program's files stay as they are, and nothing is left behind.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
install_broken
training=(--data "$data" --steps 40 --quiet)

# says NAME CODE PROOF PATTERN: the last command ended with CODE, and its line on the proof (c or d) matches.
says() {
    check "$1" grep -Eq "^proof \($3\): ($4)" "$work/stdout"
    check "$1: exit code $2" test "$code" -eq "$2"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}

# claims NAME CODE PROOF PATTERN PROGRAM...: the program is scouted, and that is said of it.
claims() {
    run "$ddprun" -q --device softgpu scout --prove "${@:5}"
    says "${@:1:4}"
}

# proved NAME PROGRAM...: all proofs pass.
proved() {
    local name=$1
    shift
    run "$ddprun" -q --device softgpu scout -v --prove --json "$work/plan.json" "$@"
    says "$name: halves may be exchanged" 0 c passed
    says "$name: turns are as one process plays them" 0 d "passed: 2 ranks that take turns, .* after each of 3 rounds"
    check "$name: the plan has all" test "$(grep -c '"end":"passed"' "$work/plan.json")" -eq 2
}

# fails NAME MUTANT: a plan that is broken so fails in turns.
fails() {
    run env DDPRUN_MUTANT="$2" "$broken/bin/ddprun" -q scout --prove "$digits_plain" "${training[@]}"
    says "$1" 1 d "failed: after round 1 parameter "
    check "$1: in one line" test "$(grep -c '^ddprun: findings are not proved' "$work/stderr")" -eq 1
}

proved digits_plain sh -c "echo run >>$work/runs; exec $digits_plain --data $data --steps 40 --quiet"
check "what ranks write is not in the user's files" test "$(wc -l <"$work/runs")" -eq 1
proved digits "$digits" "${training[@]}"

run env DDPRUN_MUTANT=none "$broken/bin/ddprun" -q scout --prove "$digits_plain" "${training[@]}"
says "the player that can be broken" 0 d passed
python3 - "$work" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1] + '/plan.json'))
memory = plan['turns']['memory']
short = next(item for item in memory if item['role'] == 'parameter')
memory.append(dict(short, role='unwritten', type=0, begin=short['end'] - 4))
short['end'] -= 4
json.dump(plan, open(sys.argv[1] + '/short.json', 'w'))
PYTHON
"$build/tests/tools/scout/reseal" "$work/short.json"
run "$ddprun" check -q -n 2 --device softgpu --share-gpu --plan "$work/short.json" "$digits" "${training[@]}"
check "a parameter that ends in front of its last element" grep -Eq '^different: proof \(d\) of the plan fails: after parameter a[0-9]+\[.* lies memory .*, which changes although no operation of the plan writes it$' "$work/stdout"
fails "a plan without a tensor" SCOUT_PLAY_TENSOR_MISSING
fails "a plan without an element" SCOUT_PLAY_ROW_MISSING
fails "a plan that averages too late" SCOUT_PLAY_TOO_LATE
fails "a plan with a wrong type" SCOUT_PLAY_TYPE_WRONG

linear=$build/tests/tools/scout/turns
proved "clipping" "$linear" clip
claims "an average of clipped gradients, by turns" 1 d passed "$linear" normalise
says "an average of clipped gradients depends on who has which records" 1 c "not possible here: .* the average of gradient"
proved "momentum in the gradient" "$linear" momentum
check "momentum in the gradient: memory that is annotated once" test "$(grep -c "^+ *DDP_STATE" "$work/stdout")" -eq 0
proved "batches that a host function makes" "$linear" staged
claims "batches that a thread copies, four ahead: no copy goes where the step before had its data, and by its clock two runs may not begin alike" 0 c "not possible here: (two runs of the program begin with different values|the exchange changes no gradient)" "$build/tests/tools/scout/periods" ring 4
says "batches that a thread copies, four ahead: turns are as one process plays them" 0 d "passed: 2 ranks that take turns"
for ((try = 0; try == 0 || (try < 4 && code == 0); try++)); do # on a busy machine the thread may be as regular as the steps are
    run env DDPRUN_MUTANT=SCOUT_LOADERS_COUNTED "$broken/bin/ddprun" -q scout "$build/tests/tools/scout/periods" ring 4
done
failed_with "copies of a loader that count where they are made" 1 "repeated nothing three times"
run env DDPRUN_MUTANT=SCOUT_PLAY_TENSOR_MISSING "$broken/bin/ddprun" -q --device softgpu scout --prove "$build/tests/tools/scout/periods" ring 4
says "a loader's thread, and a plan without a tensor" 1 d "failed: after round 1 parameter "
claims "a loader whose copy is the first operation of a step, by turns" 0 d "passed: 2 ranks that take turns, .*; so has one process" "$build/tests/tools/scout/periods" first
for ((try = 0; try == 0 || (try < 4 && code == 0); try++)); do # on a busy machine the thread may copy too late
    run env DDPRUN_MUTANT=PLAN_LOADER_BEGINS "$broken/bin/ddprun" -q --device softgpu scout --prove "$build/tests/tools/scout/periods" first
done
says "a loader whose copy begins a batch of the proof" 1 d "failed: after round [123] parameter .* differs from one process whose turns change where it writes state last"
# SOFTGPU_UNRULY: the first launch of the update waits for the device, and so for the host function.
run env SOFTGPU_UNRULY=1 "$ddprun" -n 2 --device softgpu --share-gpu --plan auto --slow --yes --timeout 60 "$build/tests/tools/scout/periods" locked
check "a loader copies with a lock held that a host function takes: ranks train by plan" test "$code" -eq 0 -a \
    "$(grep -c 'averaged over 2 ranks' "$work/stderr")" -eq 1
run "$ddprun" -q --device softgpu scout "$build/tests/tools/scout/periods" shows
check "20 steps, of which each fifth is read" grep -q '^a step has 14 GPU operations' "$work/stdout"
run "$ddprun" -q --device softgpu scout "$build/tests/tools/scout/periods" shows 4
check "20 steps, of which each fourth is read" grep -q '^a step has 14 GPU operations' "$work/stdout"
for ((try = 0; try == 0 || (try < 4 && code == 0); try++)); do # as above
    run "$ddprun" -q scout "$build/tests/tools/scout/periods" tables 8
done
failed_with "a loader's buffers in a table of addresses" 1 "repeated nothing three times|no two steps were equal"
claims "batches of other sizes have no halves" 0 c "not possible here: the exchange changes no gradient" "$build/tests/tools/scout/periods" sizes
says "batches of other sizes, by turns" 0 d passed
check "a note says that sizes differ" grep -q "^note: steps are equal but for grid sizes" "$work/stdout"
run env DDPRUN_MUTANT=SCOUT_SIZES_COUNT "$broken/bin/ddprun" -q scout "$build/tests/tools/scout/periods" sizes
failed_with "batches of other sizes, where sizes count" 1 "repeated nothing three times"
claims "the same batch in each step" 1 c "not possible here: the exchange changes no gradient" "$linear" still
says "the same batch in each step, by turns" 1 d "failed: .*each batch is the whole data, so more ranks gain nothing"

# Counters and generators of the device, and memory that each rank has for itself, are kept apart: a player that does not is seen.
while IFS='|' read -r habit mutant said; do
    run env DDPRUN_MUTANT="$mutant" "$broken/bin/ddprun" -q --device softgpu scout --prove "$linear" "$habit"
    check "$habit with $mutant: $said" grep -q "^proof (d): $said" "$work/stdout"
done <<'ROWS'
counter|none|passed
counter|SCOUT_PLAY_ALL_DROPPED|failed
noise|none|passed
noise|SCOUT_PLAY_ALL_DROPPED|failed
statistics|none|passed
statistics|PLAN_STATISTICS_KEPT|failed
addresses|none|passed
fails|none|passed
mask|none|not possible here: weigh changes averaged gradients by what differs from batch to batch
seed|none|not possible here: weigh changes averaged gradients by what differs from batch to batch
twice|none|not possible here: backward computes gradients after the place where they are averaged
ROWS
claims "records that lie beside each other, by turns" 1 d passed "$linear" columns
says "records that lie beside each other have no halves" 1 c "not possible here: when two ranks exchange halves .* records do not lie"
claims "numbers that are copied one by one" 1 d "failed: .* cuMemcpyHtoD_v2 comes before the operation at which the plan averages gradients" "$linear" labels
says "numbers that are copied one by one, of which a step may begin with any, have no halves" 1 c "not possible here: a copy of 4 bytes"

# Data that lies on the device from the start: by pointers, indices, a number, a copy.
for where in "public_memory resident" "public_memory shuffled" "periods index" "periods copied"; do
    in_turn 3 || continue
    claims "$where: no halves" 0 c "not possible here: (no copy from the host brings data|a copy of 64 bytes from the host differs)" "$build/tests/tools/scout/"$where
    says "$where: turns" 0 d passed
    run env DDPRUN_MUTANT=SCOUT_PLAY_TENSOR_MISSING "$broken/bin/ddprun" -q --device softgpu scout --prove "$build/tests/tools/scout/"$where
    says "$where, and a plan without a tensor" 1 d "failed: after round 1 parameter "
done

# Gradients that are averaged in several places: of two optimizers, and of updates inside backward with one buffer.
for program in "matrix/gan_shared" "tools/scout/public_nets reuse"; do
    claims "$program" 1 d "not possible here: gradients are averaged in [24] places" "$build/tests/"$program
done

run "$ddprun" -q --device softgpu scout --prove "$build/tests/matrix/memories_shared"
check "parameters that the host updates: exit code 1" test "$code" -eq 1
check "parameters that the host updates: the reason" grep -q "not proved: what the program sends to the device depends on what it read from the device" "$work/stderr"

claims "few steps" 0 d "passed: 2 ranks that take turns, .* after each of 3 rounds" "$digits_plain" --data "$data" --steps 8 --quiet
run "$ddprun" -q --device softgpu scout --prove --timeout "$(patient 2)" sh -c "[ -z \"\$_DDPRUN_SCOUT_PLAY\" ] || sleep 100; exec $linear clip"
says "a program that does not come to its steps" 1 d "not possible here: it took longer than --timeout"
claims "an update without gradients" 1 d "not possible here: .* without a gradient of its own" "$build/tests/trainers/fused" kernels
finish
