#!/usr/bin/env bash
# outer.sh BUILD - --outer-lr and --outer-momentum: behind each average of --sync-every parameters of all float types, in memory of
# all kinds, are what the trainer computes for all ranks one after the other; DDP_SYNC averages alone; state stays each rank's own.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=60
outer=$build/tests/trainers/outer

# trains RANKS MODE KIND EVERY OPTION...: with these options of ddprun; the trainer has them, too.
trains() {
    local ranks=$1 mode=$2 kind=$3 every=$4 given=("${@:5}") known=()
    known=("${given[@]/--outer-lr/--rate}")
    run "$ddprun" -n "$ranks" --sync-every "$every" --check-every 1 "${given[@]}" "$outer" "$mode" "$kind" --every "$every" "${known[@]/--outer-momentum/--momentum}"
    succeeded "$mode, $kind, $ranks ranks, every $every, ${given[*]}"
    check "$mode, $kind: $ranks ranks hold what they must" [ "$(grep -c 'differs by' "$work/stdout")" -eq $((4 * ranks)) ]
}

for kind in device managed pageable; do
    for mode in parameters gradients sync again; do
        trains 2 "$mode" "$kind" 4 --outer-lr 0.7 --outer-momentum 0.9
    done
done
check "the memory that is kept is reported" grep -q '^ddprun: .*; outer steps keep 117.2 KiB of device memory on each rank$' "$work/stderr"
trains 2 gradients device 4 --outer-lr 0.5
check "without momentum no velocity is kept" grep -q 'outer steps keep 58.6 KiB of device memory' "$work/stderr"
check "each rank's state: no warning" bash -c "! grep -q 'DDP_STATE' '$work/stderr'"
trains 3 sync device 5 --outer-momentum 0.5
trains 2 parameters device 4 --outer-lr 1
check "rate 1 without momentum is the average: nothing is kept" bash -c "! grep -q 'outer steps keep' '$work/stderr'"
for seed in 1 2 3; do
    SOFTGPU_CHAOS=$seed trains 2 sync device 4 --outer-lr 0.7 --outer-momentum 0.9
done
run "$ddprun" -n 1 --sync-every 4 --outer-lr 0.7 "$outer" again device
succeeded "one rank: nothing happens"

# A restarted job begins anew: the anchor is what the parameters hold then.
run "$ddprun" -n 2 --sync-every 4 --outer-lr 0.7 --outer-momentum 0.9 --max-restarts 1 --device softgpu sh -c \
    '"$@" && [ "$DDPRUN_RESTART" -gt 0 ]' sh "$outer" sync device --every 4 --rate 0.7 --momentum 0.9
succeeded "--max-restarts"
check "--max-restarts: trained twice" [ "$(grep -c 'rank 0: float32 differs by' "$work/stdout")" -eq 2 ]

# ends NAME CODE PATTERN OPTIONS...
ends() {
    run "$ddprun" -n 2 "${@:4}" "$outer" sync device
    failed_with "$1" "$2" "$3"
}
ends "without --sync-every" 2 '--outer-lr and --outer-momentum need --sync-every K; give' --outer-lr 0.7
ends "momentum without --sync-every" 2 'need --sync-every K' --outer-momentum 0.9
for rate in 0 -1 101 nan x; do
    ends "--outer-lr $rate" 2 'is not a rate above 0 and up to 100, in --outer-lr' --sync-every 4 --outer-lr="$rate"
done
for momentum in -0.1 1 inf; do
    ends "--outer-momentum $momentum" 2 'is not a number from 0 to below 1, in --outer-momentum' --sync-every 4 --outer-momentum="$momentum"
done
run "$ddprun" check --sync-every 4 --outer-lr 0.7 "$outer" sync device
failed_with "with check" 2 '--sync-every and check contradict each other'
finish
