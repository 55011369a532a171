#!/usr/bin/env bash
# host_memory.sh BUILD - memory that the host reaches: its averages are right, include what the host wrote before DDP_STEP, and are
# there when DDP_STEP returns, whatever else the program uses; other gradients overlap beside it.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
trainer=$build/tests/trainers/host_memory
said='of 7 gradients and buffers are in memory that the host may write'

# trains RANKS KIND MODE OPTIONS...: right, and said once.
trains() {
    local ranks=$1 kind=$2 mode=$3
    shift 3
    run "$ddprun" -n "$ranks" --check-every 1 "$@" "$trainer" "$kind" "$mode"
    succeeded "$kind, $mode, $ranks ranks${*:+, $*}"
    [ "$kind" = device ] || [ "$ranks" -eq 1 ] || check "$kind, $mode, $ranks ranks${*:+, $*}: said once" [ "$(grep -c "$said" "$work/stderr")" -eq 1 ]
}

run "$trainer" mixed plain
succeeded "without ddprun"
trains 1 mixed plain
trains 3 device plain
trains 3 mixed plain
overlapped "device gradients beside others"
for mode in accumulate no-sync ready groups weight host-writes graph; do
    trains 2 managed "$mode"
done
trains 2 mixed graph
check "mixed, graph: steps in graphs" grep -q ' 12 of them in CUDA graphs' "$work/stderr"
trains 2 mixed groups
overlapped "a group of device gradients beside a managed one"
trains 2 mixed host-writes --verify
trains 2 mixed host-writes --compress bf16 # small whole numbers lose nothing there
trains 2 mixed host-writes --no-overlap
trains 2 mixed host-writes --communicators 2
for seed in 1 2; do
    SOFTGPU_CHAOS=$seed SOFTGPU_LINK=latency_us=300,gbytes_per_s=1 trains 2 mixed ready
done
finish
