#!/usr/bin/env bash
# host_memory.sh BUILD - memory that the host reaches: its averages are right, include what the host wrote before DDP_STEP, and are
# there when DDP_STEP returns, whatever else the program uses; other gradients overlap beside it.
source "$(dirname "$0")/lib.sh"
limit=90
trainer=$build/tests/trainers/host_memory
said='of 7 .* and buffers are in memory that the host may write'

# trains RANKS KIND MODE OPTIONS...: right, and said once.
trains() {
    local ranks=$1 kind=$2 mode=$3
    shift 3
    works "$kind, $mode, $ranks ranks${*:+, $*}" "$ddprun" -n "$ranks" --check-every 1 "$@" "$trainer" "$kind" "$mode"
    [ "$kind" = device ] || [ "$ranks" -eq 1 ] || check "$kind, $mode, $ranks ranks${*:+, $*}: said once" [ "$(grep -c "$said" "$work/stderr")" -eq 1 ]
}

works "without ddprun" "$trainer" mixed plain
trains 1 mixed plain
trains 3 device plain
trains 3 mixed plain
overlapped "device gradients beside others"
for mode in accumulate no-sync ready groups weight host-writes graph; do
    trains 2 managed "$mode"
done
check "graph: steps in graphs" grep -q ' 12 of them in CUDA graphs' "$work/stderr"
for mode in accumulate no-sync ready groups weight host-writes; do
    trains 2 mixed "$mode"
    overlapped "device gradients beside others, $mode"
done
for kind in managed mixed; do
    trains 1 "$kind" parameters
    trains 2 "$kind" parameters
    trains 3 "$kind" parameters --verify
done
SOFTGPU_MANAGED_APART=1 trains 2 managed plain
check "managed memory that the host may not read beside kernels is not searched" \
    [ "$(grep -c 'searched for addresses here (the host may not read managed memory while kernels run, concurrentManagedAccess is 0)' "$work/stderr")" -eq 1 ]
for kind in pinned pageable registered; do
    trains 3 "$kind" plain
done
trains 2 pageable forgotten-at-end
check "memory that is forgotten and freed: nothing else is said" bash -c "! grep -q 'at the end of the program' '$work/stderr'"
trains 2 pageable freed-at-end
trains 2 mixed host-writes --verify
trains 2 mixed host-writes --compress bf16 # small whole numbers lose nothing there
trains 2 mixed host-writes --no-overlap
for seed in 1 2; do
    SOFTGPU_CHAOS=$seed SOFTGPU_LINK=latency_us=300,gbytes_per_s=1 trains 2 mixed ready
    SOFTGPU_CHAOS=$seed SOFTGPU_LINK=latency_us=300,gbytes_per_s=1 trains 3 pinned groups
done

run "$ddprun" -n 2 "$trainer" pageable other-buffer
check "other-buffer: ends the job" [ "$code" -eq 1 ]
check "other-buffer: reported" [ "$(grep -c 'are unchanged since the previous step' "$work/stderr")" -eq 2 ]

# ends MODE PATTERN
ends() {
    run "$ddprun" -n 2 "$trainer" pageable "$1"
    grep -v "$said" "$work/stderr" >"$work/others"
    mv "$work/others" "$work/stderr"
    failed_with "$1 ends the job" 1 "$2"
}
gradient='gradient 1 of 6 \(.annotated., 1500 float32, host_memory.cu:[0-9]+\)'
ends not-there 'DDP_GRADIENT number 1 .*: 0x[0-9a-f]+ is not device memory, and only 0 of 6000 bytes of host memory there can be read'
ends in-file 'DDP_GRADIENT number 1 .* is shared with every process that maps the file /tmp/host_memory-'
ends unmapped "$gradient: memory of the host from 0x[0-9a-f]+ to 0x[0-9a-f]+ cannot be read: it was freed"
ends protected "$gradient: memory of the host .* cannot be written"
ends kinds-differ 'annotate gradient number 1, .annotated. .*, in memory of different kinds: host memory on rank 0, device memory on rank 1'
ends graph "stands in a capture, and $gradient is in memory of the host, which a graph cannot wait for"
finish
