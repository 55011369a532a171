#!/usr/bin/env bash
# fused.sh BUILD - DDP_STEP_PARAMETERS: trainers that update their parameters inside backward train what one process trains, with overlap, beside a group with
# gradients, and with state; one whose input gradients use updated weights does not, and ddprun check says why; misuse ends the job.
source "$(dirname "$0")/lib.sh"
limit=90
fused=$build/tests/trainers/fused

# trains RANKS MODE OPTIONS...: serial up to summation order, the ranks bitwise the same, also after every step.
trains() {
    local ranks=$1 mode=$2
    in_turn 3 || return
    shift 2
    [ -e "$work/$mode.serial" ] || "${runtime[@]}" "$fused" "$mode" --save "$work/$mode.serial"
    rm -f "$work"/rank-*
    works "$mode, $ranks ranks${*:+, $*}" "$ddprun" -n "$ranks" --bucket-mb 0.004 --check-every 1 "$@" "$fused" "$mode" --save "$work/rank-%d"
    same_on_all_ranks "$mode, $ranks ranks${*:+, $*}" "$ranks"
    check "$mode, $ranks ranks${*:+, $*}: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/$mode.serial" 1e-5
    check "$mode, $ranks ranks${*:+, $*}: compared" grep -q 'parameters bitwise identical on all ranks' "$work/stderr"
}

for mode in gemm kernels; do
    run "$fused" "$mode" --save "$work/bare"
    works "$mode, one rank" "$ddprun" -n 1 "$fused" "$mode" --save "$work/rank-%d"
    check "$mode, one rank: bitwise as without ddprun" cmp "$work/bare" "$work/rank-0"
    for ranks in 2 4; do
        trains "$ranks" "$mode" || continue
        overlapped "$mode, $ranks ranks"
        check "the closing lines speak of parameters" grep -q ' 8 parameters, 16.5 KiB per step, in 8 buckets' "$work/stderr"
    done
done
trains 2 gemm --no-overlap
trains 2 momentum && overlapped "momentum"
if trains 2 mixed; then
    overlapped "mixed"
    check "mixed: no warning" bash -c "! grep -q 'is a gradient missing' '$work/stderr'"
    check "mixed: the closing lines speak of both" grep -q ' 4 gradients and 4 parameters, ' "$work/stderr"
fi
trains 2 graph
trains 2 evaluates
trains 5 weighted
for seed in 1 2; do
    SOFTGPU_CHAOS=$seed trains 2 gemm
    SOFTGPU_CHAOS=$seed trains 2 streams
    SOFTGPU_CHAOS=$seed trains 2 mixed
done

# Averages after every fourth update and at the end, also of a program that has gradients and annotates none; disorder in streams changes no bit.
for mode in gemm momentum local streams; do
    in_turn 4 || continue
    for seed in '' 1; do
        SOFTGPU_CHAOS=$seed works "$mode, every 4 steps${seed:+, disordered}" "$ddprun" -n 2 --check-every 1 "$fused" "$mode" --steps 22 --every 4 --sync 1 --save "$work/rank-%d"
        same_on_all_ranks "$mode, every 4 steps${seed:+, disordered}" 2
        check "$mode, every 4 steps${seed:+, disordered}: six averages" grep -q '2 ranks, 6 steps' "$work/stderr"
        [ -n "$seed" ] || cp "$work/rank-0" "$work/every-4"
    done
    check "$mode, every 4 steps: the same bits in disorder" cmp "$work/rank-0" "$work/every-4"
done
fails "--sync-every" 2 '--sync-every is gone: .* DDP_STEP_PARAMETERS after every K-th update' "$ddprun" -n 2 --sync-every 4 "$fused" gemm

# Updated weights in input gradients: another model, the same on all ranks.
"${runtime[@]}" "$fused" updated --steps 10 --save "$work/updated.serial"
works "updated" "$ddprun" -n 2 "$fused" updated --steps 10 --save "$work/rank-%d"
same_on_all_ranks "updated" 2
check "updated: another model" bash -c "! '$compare' --quiet '$work/rank-0' '$work/updated.serial' 1e-3 >/dev/null"
run "$ddprun" check "$fused" updated
check "check: updated differs" [ "$code" -eq 1 ]
check "check: names the operation and the macro" grep -Eq '^different: in step 1 .cublasSgemm. .*DDP_STEP_PARAMETERS has not averaged yet' "$work/stdout"
check "check: names the tensor" grep -q '^    after step 1 parameter . of 8, ' "$work/stdout"
check "check: names the cause" grep -q "compute each layer's input gradient before the layer's weights change" "$work/stdout"
for mode in gemm kernels momentum mixed; do
    in_turn 3 || continue
    works "check: $mode is equal" "$ddprun" check --steps 6 "$fused" "$mode"
done

# What DDP_FORGET names after the last step is compared as it was then.
for mode in gemm mixed; do
    works "$mode, forgotten after the last step" "$ddprun" -n 2 --bucket-mb 0.004 "$fused" "$mode" --steps 7 --leave 1
    check "$mode, forgotten after the last step: compared" grep -q 'parameters bitwise identical on all ranks (hash ' "$work/stderr"
    fails "$mode, forgotten after rank 1 has changed one" 1 '`bias.*differs between ranks 0 and 1 after step (7|14):' "$ddprun" -n 2 --bucket-mb 0.004 "$fused" "$mode" --steps 7 --leave 2
done

# ends MODE PATTERN [RANKS OPTIONS...]
ends() {
    local mode=$1 pattern=$2 ranks=${3:-2}
    in_turn 3 || return 0
    fails "$mode ends the job with $ranks ranks${*:4}" 1 "$pattern" "$ddprun" -n "$ranks" --bucket-mb 0.004 "${@:4}" "$fused" "$mode"
}
here='fused.cu:[0-9]+\)'
for ranks in 1 2; do
    ends step "DDP_STEP \(.*$here without gradients: .* calls DDP_STEP_PARAMETERS after the update" "$ranks"
    ends gradients "DDP_STEP_PARAMETERS \(.*$here of group 0, which has gradients, and DDP_STEP averages those" "$ranks"
    ends both "DDP_STEP \(.*$here of group 0, whose parameters DDP_STEP_PARAMETERS averages" "$ranks"
    ends empty "DDP_STEP_PARAMETERS \(.*$here of group 3, which has no parameters" "$ranks"
    ends captured "DDP_STEP_PARAMETERS \(.*$here stands in the capture of a CUDA graph" "$ranks"
    ends no-sync "DDP_STEP_PARAMETERS \(.*$here stands between DDP_NO_SYNC_BEGIN" "$ranks"
    ends gemm "DDP_STEP_PARAMETERS \(.*$here with --reduce sum" "$ranks" --reduce sum
    ends gemm "DDP_STEP_PARAMETERS \(.*$here with --compress" "$ranks" --compress bf16
done
ends forgotten 'parameter [0-9]+ of 8 \(.bias\[l\].*differs between ranks 0 and 1 after step [0-9]+: neither it nor its gradient is averaged: no DDP_STEP_PARAMETERS averages group 1'
ends unstepped 'DDP_STEP was left out|wait for rank|different numbers of steps|differs between ranks'
finish
