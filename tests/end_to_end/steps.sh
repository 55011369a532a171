#!/usr/bin/env bash
# steps.sh BUILD - steps that are not all alike train right, on any number of ranks: what differs on all ranks or on one; and what a
# program says about it is believed, or ends the job.
source "$(dirname "$0")/lib.sh"
limit=90
steps=$build/tests/trainers/steps

# steps_of RANKS MODE: trains right, with the ranks bitwise the same after every step.
steps_of() {
    works "$2, $1 ranks" "$ddprun" -n "$1" --bucket-mb 0.004 --check-every 1 "$steps" "$2"
}

# overlapped LEAST: in so many steps at least buckets were launched early.
overlapped_at_least() {
    local count
    count=$(sed -nE 's/.* ([0-9]+) of them overlapped.*/\1/p' "$work/stderr")
    check "$mode, $ranks ranks: overlaps in at least $1 steps of 40" [ "${count:-0}" -ge "$1" ]
}

for ranks in 2 3 4; do
    for mode in layer-drop layer-drop-alone other-branch; do
        steps_of "$ranks" "$mode"
    done
    for mode in plain frozen log-alone; do
        steps_of "$ranks" "$mode"
        overlapped_at_least 20
    done
done
ranks=3
for mode in no-sync ready buffer log; do
    steps_of "$ranks" "$mode"
    overlapped_at_least 20
done
steps_of "$ranks" passes
for seed in 1 2; do
    export SOFTGPU_CHAOS=$seed
    for mode in no-sync ready buffer; do
        steps_of "$ranks" "$mode"
    done
    unset SOFTGPU_CHAOS
done
works "no-sync, a world of one" "$ddprun" -n 1 "$steps" no-sync
works "buffer, without ddprun" "$steps" buffer

SOFTGPU_LINK=latency_us=20000,gbytes_per_s=1 works "a read before DDP_STEP" "$ddprun" -n 2 --bucket-mb 0.011 "$build/tests/matrix/late_read_shared" --steps 10
check "a read before DDP_STEP sees this rank's own gradient, although its bucket is launched" grep -qx "saw its own" "$work/stdout"

computes_alike "a write after DDP_GRADIENT_READY" "$steps" ready-write
run "$ddprun" -n 2 "$steps" no-sync-step
failed_with "DDP_STEP without an end of DDP_NO_SYNC" 1 "DDP_STEP .steps.cu:[0-9]+. stands between DDP_NO_SYNC_BEGIN|DDP_STEP .*steps.cu:[0-9]+. stands between DDP_NO_SYNC_BEGIN"
fails "an end of DDP_NO_SYNC without a beginning" 1 "DDP_NO_SYNC_END .*steps.cu:[0-9]+. without DDP_NO_SYNC_BEGIN" "$ddprun" -n 2 "$steps" no-end
finish
