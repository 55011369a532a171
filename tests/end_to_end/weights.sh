#!/usr/bin/env bash
# weights.sh BUILD - DDP_WEIGHT: ranks with shares of unequal size train what one process trains, on whatever way gradients are sent;
# with equal shares every bit is as without it; and weights that cannot be right end the job.
source "$(dirname "$0")/lib.sh"
limit=90
weights=$build/tests/trainers/weights

# trains RANKS MODE OPTIONS...: right, with the ranks bitwise the same after every step.
trains() {
    local ranks=$1 mode=$2
    shift 2
    works "$mode, $ranks ranks${*:+, $*}" "$ddprun" -n "$ranks" --bucket-mb 0.006 --check-every 1 "$@" "$weights" "$mode"
}

works "uneven, without ddprun" "$weights" uneven
trains 1 uneven
trains 3 uneven
overlapped "uneven"
trains 3 uneven --compress bf16 # small whole numbers lose nothing there
trains 3 zero
trains 2 zero --compress fp16
trains 3 idle
check "idle: a line says that gradients wait" grep -q '4 of 4 gradients are averaged at DDP_STEP, .* differ between ranks' "$work/stderr"
trains 3 sometimes
trains 2 accumulate
trains 3 late # some buckets are launched before DDP_WEIGHT
trains 3 groups
trains 3 graph
check "graph: steps in graphs" grep -q ' 30 of them in CUDA graphs' "$work/stderr"
for mode in uneven zero; do
    SOFTGPU_CHAOS=1 trains 3 "$mode"
done

# ends MODE PATTERN [OPTIONS...]
ends() {
    local mode=$1 pattern=$2
    shift 2
    fails "$mode ends the job${*:+, $*}" 1 "$pattern" "$ddprun" -n 3 --bucket-mb 0.006 "$@" "$weights" "$mode"
}
here='DDP_WEIGHT .*weights.cu:[0-9]+.'
ends above "$here: [0-9]+ of [0-9]+ items; the count is that of this rank"
ends uneven "$here with --reduce sum" --reduce sum
ends sum "$here: in step 10 the counts of all ranks add up to ([0-9]+), and the total is [0-9]+"
ends total "$here: in step 10 the total is [0-9]+ on rank 0 and [0-9]+ on rank 2"
ends alone "$here: in step 1 the counts of all ranks add up to"
ends missing "$here: before step 10 rank 0 called it and rank 2 did not"
ends never "DDP_WEIGHT.*: before step 1 rank 0 called it and rank 2 did not"
ends other-launch "$here: [0-9]+ of [0-9]+ items before the launch of a graph with DDP_STEP"
fails "a part of the items, with one rank" 1 "$here: [0-9]+ of [0-9]+ items, and there is one rank only" "$ddprun" -n 1 "$weights" alone

# Each rank shares out a batch of its own: the mean is of no batch.
ends shards 'DDP_SHARD .weights.cu:[0-9]+.: before step 10 rank 0 shares out 96 items and rank 2 shares out 48' --check-every 1
trains 3 shards-evaluated
trains 3 shards-ahead
run "$ddprun" -n 2 --device softgpu sh -c 'exec "$0" --data "$1" --steps 60 --seed 5 --batch $((96 - 48 * RANK))' "$digits" "$data"
failed_with "batches of 96 and 48: at the first step" 1 'DDP_SHARD .*: before step 1 rank 0 shares out 96 items and rank 1 shares out 48'

# A real model: 7 ranks, a batch of 96. Without weights it is another model; with equal shares weights change no bit.
mlp=("$build/tests/matrix/mlp_shared" --batch 96 --save "$work/rank-%d")
run "${mlp[@]}"
mv "$work/rank-0" "$work/serial"
run "$ddprun" -n 4 "${mlp[@]}"
mv "$work/rank-0" "$work/unweighted"
run "$ddprun" -n 7 "${mlp[@]}"
check "7 ranks without weights: reported" grep -q '96 items do not divide evenly among 7 ranks.*DDP_WEIGHT' "$work/stderr"
check "7 ranks without weights: another model" bash -c "! '$compare' --quiet '$work/rank-0' '$work/serial' 1e-5 >/dev/null"
mlp+=(--weigh 1)
works "7 ranks" "$ddprun" -n 7 --bucket-mb 0.02 "${mlp[@]}"
overlapped "7 ranks"
check "7 ranks: nothing to report" bash -c "! grep -q 'do not divide evenly' '$work/stderr'"
check "7 ranks: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
check "7 ranks: all ranks are bitwise the same" cmp "$work/rank-0" "$work/rank-6"
run "$ddprun" -n 4 "${mlp[@]}"
check "equal shares: bitwise as without weights" cmp "$work/rank-0" "$work/unweighted"
run "$ddprun" -n 1 "${mlp[@]}"
check "one rank: bitwise the bare program" cmp "$work/rank-0" "$work/serial"
finish
