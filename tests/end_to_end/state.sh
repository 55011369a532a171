#!/usr/bin/env bash
# state.sh BUILD - DDP_STATE: all ranks take what rank 0 has read, in integers, too; ranks that differ in it later are noticed, and
# programs that are right are left alone; ddprun check compares it.
source "$(dirname "$0")/lib.sh"
limit=90
state=$build/tests/trainers/state

# trains RANKS MODE: right, with parameters and state the same on all ranks after every step.
trains() {
    works "$2, $1 ranks" "$ddprun" -n "$1" --check-every 1 "$state" "$2"
    [ "$1" -eq 1 ] || check "$2, $1 ranks: bitwise identical" grep -q 'parameters bitwise identical on all ranks' "$work/stderr"
}

works "resume, without ddprun" "$state" resume
trains 1 resume
trains 4 resume
trains 2 again
trains 2 forget
# Streams that only count steps may be late: they are waited for before their counters are compared.
for seed in 1 2; do
    export SOFTGPU_CHAOS=$seed
    trains 2 resume
    unset SOFTGPU_CHAOS
done

run "$ddprun" -n 2 --check-every 1 "$state" unannotated
failed_with "state that rank 0 alone has read" 1 'parameter [0-9]+ of [0-9]+ \(.weight., .* differs between ranks 0 and 1 .*optimizer state .*DDP_STATE'
run "$ddprun" -n 2 --check-every 1 "$state" early
failed_with "DDP_STATE before the state is read" 1 '(parameter|state) [0-9]+ of [0-9]+ \(.(weight|momentum)., .*state.cu:[0-9]+\) differs between ranks 0 and 1'
fails "a flag that differs" 1 'state [0-9]+ of [0-9]+ \(.flags., .*state.cu:[0-9]+\) differs between ranks 0 and 1 after step 1[23]' "$ddprun" -n 2 --check-every 1 "$state" drift
fails "a flag that differs, at the end" 1 'state [0-9]+ of [0-9]+ \(.flags., .*state.cu:[0-9]+\) differs between ranks 0 and 1 after step 24' "$ddprun" -n 2 "$state" drift
fails "state that is freed" 1 'state [0-9]+ of [0-9]+ \(.flags., .*state.cu:[0-9]+\) was freed and not annotated again' "$ddprun" -n 2 "$state" freed
fails "state in another line" 1 'annotate states in another order: number [0-9]+ is .flags.' "$ddprun" -n 2 "$state" another-line
fails "a gradient of integers" 1 'DDP_GRADIENT number 1 \(.gradient., .*: only DDP_STATE and DDP_BUFFER take elements of type int32' "$ddprun" -n 2 "$state" integer-gradient

# DDP_MEAN_AS: one row for a label, whatever it holds.
works "means with a label" "$ddprun" -n 2 --summary-json "$work/summary.json" "$state" resume
check "means with a label: one row, and a double in full" [ "$(tr -d ' \n' <"$work/summary.json" | grep -o '"means":[^]]*' | sed 's/"place":"[^"]*",//g')" = \
    '"means":[{"name":"mean?item","step":24,"value":3.5},{"name":"wide","step":24,"value":3.5999999999999996}' ]
fails "a mean without a label" 1 'DDP_MEAN_AS .&other. .*: the label is empty' "$ddprun" -n 2 "$state" no-label

works "check: equal" "$ddprun" check "$state" resume
check "check: state is in the table" grep -Eq '^state 2 +1 +int32 .*counter +- +0.0e' "$work/stdout"
check "check: and no unannotated memory" bash -c "! grep -q '^memory' '$work/stdout'"
run "$ddprun" check "$state" early
check "check: state that is read too late" grep -q 'DDP_STATE copies rank 0.s values to all ranks' "$work/stdout"
check "check: exit code 1" [ "$code" -eq 1 ]
run "$ddprun" check "$state" unannotated
check "check: unannotated state leads to DDP_STATE" grep -q 'what to do: if one rank alone loads or initialises this state, annotate it with DDP_STATE' "$work/stdout"
finish
