#!/usr/bin/env bash
# mistaken.sh BUILD - plans by state that say something else than the program does, with a hash that is right: `ddprun check --plan`
# refuses each by a proof, with the sentence that is named here. What a step overwrites before it reads it may be called state: then the training has the same bits.
# Ordinarily a third of the rows (in_turn), with DDPRUN_SOAK=1 all, and more programs and ways.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
habits=$build/tests/tools/plan/habits
cd "$work" || exit 1

# words_of HABIT: the program, in $words.
words_of() {
    words=("$habits" "$1" --steps 61)
    [ "$1" != adam ] || words=("$build/tests/tools/scout/rounds" counter)
}

# mistaken HABIT CODE: HABIT.json, its plan, after CODE: python, with lists of its memory by class, and its operations.
mistaken() {
    words_of "$1"
    [ -e "$1.json" ] || "$ddprun" -q --device softgpu scout --by state --prove --json "$1.json" "${words[@]}" >"$1.scout" 2>&1
    python3 - "$1.json" "$2" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
memory, operations = plan['turns']['memory'], plan['turns']['operations']
state, streams, sums = ([item for item in memory if item['role'] == role] for role in ('state by change', 'stream', 'sum'))
def becomes(items, role, type=0):
    for item in items:
        item['role'], item['type'] = role, type
def add_state(number, type=1, end=None): # an allocation
    of = plan['allocations'][number]
    memory.append({'role': 'state by change', 'type': type, 'allocation': number, 'ordinal': of['ordinal'],
                   'bytes': of['bytes'], 'begin': 0, 'end': end or of['bytes']})
def made_by_turn(name):
    for of in operations:
        of['made_by'] = 'turn' if name in of['name'] else of['made_by']
def begins_later():
    operations.append(operations.pop(0))
    for of in operations:
        if 'written_by' in of:
            of['written_by'] = (of['written_by'] - 1) % len(operations)
exec(sys.argv[2])
json.dump(plan, open('mistaken.json', 'w'))
PYTHON
    "$build/tests/tools/scout/reseal" mistaken.json
}
# proved HABIT CODE: in $said: how the proofs end, and what they say.
proved() {
    mistaken "$1" "$2"
    run "$ddprun" check -q -n 2 --device softgpu --share-gpu --timeout 60 --plan mistaken.json "${words[@]}"
    said=$(cat "$work/stdout" "$work/stderr")
}
# Where the first run by the plan already refuses it, no proof is left to be made.
refused() { # HABIT NAME SENTENCE CODE
    in_turn 6 || return 0
    proved "$1" "$4"
    local proof='(different|not comparable): proof \((d|complete)\) of the plan' run='ddprun: (in )?a[0-9]+\[[0-9:]+\]'
    report "$1, $2: is refused" "$(grep -qE "^($proof|$run) .*($3)" <<<"$said" || echo "$said")"
}

for habit in noise sums clip half adam; do
    [ $habit = adam ] || in_turn 2 || continue
    proved $habit ''
    report "$habit, as it was found: is proved" "$(grep -q '^equal: ' <<<"$said" || echo "$said")"
done
check 'a round of the proof has fewer steps than ranks' grep -q 'after each of 4 rounds; the second round has fewer steps' <<<"$said"

missed='memory without a class, set back by one step, changes .* of step'
refused noise 'a tensor left out' "$missed" 'memory.remove(state[0])'
refused noise 'one element left out' "$missed" 'state[0]["end"] -= 4'
refused noise 'state called constant' 'is constant, but it changed in step 1' 'becomes(state[:1], "unwritten")'
refused noise 'state called stream' 'is a stream, but it depends on averaged memory' 'becomes(state[:1], "stream")'
refused noise 'state called sum' 'is a sum, but the number that a step adds depends|is computed from memory that is a sum' 'becomes(state[:1], "sum", 1)'
refused noise 'state called memory of each rank' 'it is trained, and ranks must not keep their own' 'becomes(state[:1], "per rank")'
refused noise 'stream left out' "$missed" 'memory.remove(streams[0])'
refused noise 'stream called state' 'is called float32, and its bits look like random bits' 'becomes(streams, "state by change", 1); made_by_turn("add_noise")'
refused noise 'stream that ranks make by turns' 'stream .* differs from one process' 'made_by_turn("add_noise")'
refused counter 'a counter called state' 'is called float32, and its bits look like whole numbers|a float that was zero has become a whole number' 'becomes(streams, "state by change", 1); made_by_turn("advance")'
refused adam 'a counter of floats called state' 'changes, and no data reaches it: scout cannot tell whether it is trained, or a stream' 'becomes(streams, "state by change", 1); made_by_turn("count_step")'
refused history 'a history left out' 'each step changes memory of 2560 bytes, which has no class, by note, and gives it to no other operation' 'memory.remove(sums[0])'
refused sums 'a sum called state' 'is no state but a sum: the number that a step adds does not depend on it' 'becomes(sums[:1], "state by change", 1)'
refused sums 'a sum of whole numbers called state' 'is called float32, and its bits look like whole numbers|a float that was zero has become a whole number' 'becomes(sums[1:], "state by change", 1)'
refused sums 'a sum called a stream' 'differs from one process' 'becomes(sums[1:], "stream")'
refused sums 'a sum of floats called whole numbers' 'is called int32, and its bits look like float32' 'becomes(sums[:1], "sum", 5)'
refused half 'float32 called float64' 'is called float64, and its bits look like float32' 'becomes([item for item in state if item["bytes"] == 7680], "state by change", 2)'
refused half 'float32 called float16' 'is called float16, and its bits look like random bits, or a wider type' 'becomes(state[:1], "state by change", 3)'
refused half 'float16 called float32' 'is called float32, and its bits look like float16' 'becomes([item for item in state if item["type"] == 3], "state by change", 1)'
# After two copies from the host, which all ranks make.
refused clip 'a border one launch late' "$missed" 'begins_later(); begins_later(); begins_later()'
refused clip 'a loss called state' 'is no state: nothing depends on its old value' 'add_state(7)'
refused counts 'counts in a struct of weights called state' 'is called float32, and holds a whole number among floats, at byte [04]|a float that was zero has become a whole number' 'memory.remove(sums[0]); state[0]["begin"] = 0'
if [ "${DDPRUN_SOAK:-0}" -eq 1 ]; then
    refused half 'float32 called bfloat16' 'is called bfloat16, and its bits look like random bits' 'becomes(state[:1], "state by change", 4)'
    refused sums 'whole numbers called a sum of floats' 'is called float32, and its bits look like whole numbers' 'becomes(sums[1:], "sum", 1)'
    refused sums 'a sum called constant' 'is constant, but it changed' 'becomes(sums[:1], "unwritten")'
    refused sums 'state called the latest bytes' 'differs from one process' 'becomes(state[:1], "last")'
    refused dropout 'random states called float64' 'is called float64, and its bits look like random bits|was written after the last write of state' 'becomes(streams, "state by change", 2)'
    refused counter 'data on the device, a border one operation late' "$missed" 'begins_later()'
    refused gemm-update 'no gradients, a border one launch late' "$missed" 'begins_later(); begins_later(); begins_later()'
    refused clip 'what is of one sample called state' 'each half of a batch changes other elements' 'add_state(2)'
    refused clip 'a norm called state' 'is no state: nothing depends on its old value' 'add_state(17, end=4)'
fi

# What was zero in all recorded steps has the class of the weights beside it.
mistaken counts-late ''
proved counts-late ''
report 'a count that is zero so far: the proofs pass, the training does not' \
    "$(grep -q '^ddprun: in .* a float that was zero has become a whole number' <<<"$said" || echo "$said")"
run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan mistaken.json "${words[@]}"
check 'a count that is zero so far: its first hit ends the job' test "$code" -eq 1
check 'a count that is zero so far: says why' grep -q 'a float that was zero has become a whole number, which has no mean: make a new plan' "$work/stderr"

# trains NAME OPTIONS...: by mistaken.json, into NAME.weights and NAME.out.
trains() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan mistaken.json "${@:2}" "$habits" clip --steps 61 --save "$1.weights"
    check "$1: trains, and ends well" test "$code" -eq 0
    cp "$work/stdout" "$1.out"
}
# Gradients, and the logits: numbers. The same, and what is of one sample, as float16, of which some are none.
mistaken clip ''
trains sound
proved clip 'for number in (10, 12, 14, 16): add_state(number)'
report 'scratch called state: is proved' "$(grep -q '^equal: ' <<<"$said" || echo "$said")"
trains scratch
mistaken clip 'for number in (2, 3, 4, 5, 10, 12, 14, 16): add_state(number, 3)'
trains nan --unproved
for name in scratch nan; do
    check "$name: weights have the same bits" cmp $name.weights sound.weights
    check "$name: the output is the same" cmp $name.out sound.out
done
finish
