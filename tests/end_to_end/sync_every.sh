#!/usr/bin/env bash
# sync_every.sh BUILD - --sync-every K: parameters and state are averaged after every K-th update and nowhere else, bit for bit as by
# a program that says itself where; DDP_SYNC averages at once; an end without it is warned of; misuse ends the job.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
fused=$build/tests/trainers/fused

# trains NAME K ARGUMENTS...: two ranks, with --sync-every K, if it is given; what rank 0 has saved becomes $work/NAME.
trains() {
    run "$ddprun" -n 2 --check-every 1 --no-overlap ${2:+--sync-every "$2"} "$fused" "${@:3}" --save "$work/rank-%d"
    succeeded "$1"
    cp "$work/rank-0" "$work/$1"
}

# equals A B: the same bits.
equals() {
    check "$1 is $2, bit for bit" cmp "$work/$1" "$work/$2"
}

# Updates inside backward; momentum is state of a float type, and its counter is one of integers.
for mode in gemm momentum passes; do
    in_turn 3 || continue
    trains "$mode-by-hand" '' "$mode" --steps 40 --every 4
    trains "$mode" 4 "$mode" --steps 40
    same_on_all_ranks "$mode" 2
    equals "$mode" "$mode-by-hand"
    check "$mode: ten averages" grep -q -- '--sync-every: 10 averages of parameters, ' "$work/stderr"
    [ "$mode" != momentum ] || check "momentum: the closing lines count states" grep -q ' 8 parameters and 4 states, ' "$work/stderr"
    check "$mode: no warning" bash -c "! grep -q 'call DDP_SYNC' '$work/stderr'"
done
trains every-step '' gemm --steps 20
trains one 1 gemm --steps 20
equals one every-step

# Programs with gradients: these stay local.
trains local '' local --steps 22 --every 4 --sync 1
trains descent 4 descent --steps 22 --sync 1
same_on_all_ranks "descent" 2
equals descent local
check "descent: six averages, one of them by DDP_SYNC" grep -q -- '--sync-every: 6 averages of parameters, 99.0 KiB from each rank; .* 22 steps would have sent 352.0 KiB' "$work/stderr"
for seed in 1 2; do
    in_turn 2 || continue
    SOFTGPU_CHAOS=$seed trains descent-disordered 4 descent --steps 22 --sync 1
    equals descent-disordered local
    SOFTGPU_CHAOS=$seed trains streams-disordered 4 streams --steps 40
    [ -e "$work/streams-by-hand" ] || trains streams-by-hand '' streams --steps 40 --every 4
    equals streams-disordered streams-by-hand
done

# Optimizer state that is annotated as nothing stays each rank's own.
run "$ddprun" -n 2 --sync-every 4 "$fused" momentum --steps 20 --forget 1
succeeded "momentum without an annotation"
check "momentum without an annotation: no warning" bash -c "! grep -q 'a parameter may have no annotation' '$work/stderr'"

# Without DDP_SYNC each rank ends with its own, and the exit code is that of the program.
for mode in gemm descent; do
    in_turn 2 || continue
    run "$ddprun" -n 2 --sync-every 4 "$fused" "$mode" --steps 22 --save "$work/rank-%d"
    failed_with "$mode without DDP_SYNC" 0 '--sync-every 4: the program ends after updates that were not averaged'
    check "$mode without DDP_SYNC: ranks differ" bash -c "! cmp -s '$work/rank-0' '$work/rank-1'"
done
trains gemm-synced 4 gemm --steps 22 --sync 1
same_on_all_ranks "gemm with DDP_SYNC" 2
run "$ddprun" -n 1 --sync-every 4 "$fused" gemm --sync 1 --save "$work/rank-%d"
succeeded "one rank"
run "$fused" gemm --sync 1 --save "$work/bare"
check "one rank: bitwise as without ddprun" cmp "$work/rank-0" "$work/bare"

# ends NAME CODE PATTERN OPTIONS...
ends() {
    in_turn 3 || return 0
    run "$ddprun" -n 2 "${@:4}"
    failed_with "$1" "$2" "$3"
}
ends "every 0 steps" 2 '.0. is not a number of steps from 1 to 1000000000, in --sync-every' --sync-every 0 "$fused"
ends "with sums" 2 '--sync-every averages parameters, and --reduce sum' --sync-every 4 --reduce sum "$fused"
ends "in 16 bits" 2 '--sync-every averages parameters, and --compress would' --sync-every 4 --compress bf16 "$fused"
ends "with weights" 1 'DDP_WEIGHT .* with --sync-every' --sync-every 4 "$fused" weighted
ends "with two groups" 1 'DDP_STEP .* with --sync-every, which averages the parameters of one group' --sync-every 4 "$fused" mixed
ends "in a capture" 1 'DDP_STEP_PARAMETERS .* stands in the capture of a CUDA graph, and --sync-every' --sync-every 4 "$fused" captured
run "$ddprun" check --sync-every 4 "$fused"
failed_with "with check" 2 '--sync-every and check contradict each other'
finish
