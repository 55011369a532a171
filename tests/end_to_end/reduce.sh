#!/usr/bin/env bash
# reduce.sh BUILD - DDP_REDUCE: every rank gets what one program computes from the numbers of all, in the order of the program's
# streams and beside a training whose buckets leave early; ranks whose calls differ, and calls that cannot be right, end the job.
source "$(dirname "$0")/lib.sh"
nccl_in_turn
limit=90
reduces=$build/tests/trainers/reduces

# reduces_right MODE RANKS OPTIONS...
reduces_right() {
    local mode=$1 ranks=$2
    shift 2
    works "$mode, $ranks ranks${*:+, $*}" "$ddprun" -n "$ranks" --device softgpu "$@" "$reduces" "$mode"
}

for mode in types order host zero; do
    reduces_right "$mode" 1
    check "$mode, one rank: the closing line" grep -Eqx 'ddprun: 1 rank, [0-9]+ calls of DDP_REDUCE, .* in all' "$work/stderr"
    SOFTGPU_CHAOS=3 reduces_right "$mode" 3
    check "$mode, 3 ranks: the closing line, and no other" grep -Eqx 'ddprun: 3 ranks, [0-9]+ calls of DDP_REDUCE, .* in all' "$work/stderr"
    check "$mode, 3 ranks: nothing else is said" [ "$(grep -c '^ddprun: ' "$work/stderr")" -eq 1 ]
done
reduces_right types 3 --reduce sum --compress bf16 # which are for gradients
reduces_right order 2 --verify
for chaos in 1 2; do
    SOFTGPU_CHAOS=$chaos reduces_right training 3 --bucket-mb 0.005
    overlapped "training"
    check "training: its reductions have a closing line" grep -Eqx 'ddprun: [0-9]+ ranks, .*; 32 calls of DDP_REDUCE, .* in all' "$work/stderr"
done

# Without a DDP_STEP: nothing says that nothing was averaged, whichever way the program ends.
reduces_right centres 2
check "centres: nothing is said of a DDP_STEP" bash -c "! grep -q 'DDP_STEP' '$work/stderr'"
reduces_right steady 2 --trace "$work"
check "steady: the trace has each call" [ "$(grep -c '"call":"DDP_REDUCE (reduces.cu:[0-9]*), 1000 ' "$work/rank-1.jsonl")" -eq 100 ]

# ends MODE PATTERN
ends() {
    fails "$1 ends the job" 1 "$2" "$ddprun" -n 2 --device softgpu --timeout 30 "$reduces" "$1"
}
here='DDP_REDUCE `.*` \(.*reduces.cu:[0-9]+\)'
ends mean-of-integers "$here: elements of type int32 have no mean"
ends no-type "$here: element type 77 is invalid"
ends no-operation "$here: operation 5 is invalid"
ends byte "$here: elements of type uint8 are not reduced"
ends null "$here: a null pointer"
ends beyond "$here: 8000 bytes, but the allocation ends after 4000"
ends not-ours "$here: 16 bytes from 0x10 on are not memory that this process can write"
ends read-only "$here: 16 bytes from 0x[0-9a-f]+ on are not memory that this process can write"
for mode in wild-mean read-only-mean; do
    ends $mode 'DDP_MEAN `.*` \(.*reduces.cu:[0-9]+\): not memory that this process can write; pass a float or double in host memory'
done
ends wild-label 'DDP_MEAN_AS `.*` \(.*reduces.cu:[0-9]+\): the label is not memory of this process'
any='DDP_ANY `.*` \(.*reduces.cu:[0-9]+\)'
ends null-any "$any: a null pointer; pass the address of an int in host memory"
ends any-on-device "$any: device memory; pass the address of an int"
ends wild-any "$any: not memory that this process can write"
ends any-or-mean 'rank 0 is at DDP_ANY \(reduces.cu:[0-9]+\) after step 0, rank 1 at DDP_MEAN \(reduces.cu:[0-9]+\) after step 0'
ends any-or-step 'rank 0 is at DDP_ANY \(reduces.cu:[0-9]+\) after step 0, rank 1 at '
ends any-in-part 'rank 0 is at DDP_ANY \(reduces.cu:[0-9]+\) after step 0, rank 1 at the end of the program'
ends null-shard 'DDP_SHARD of `8` \(.*reduces.cu:[0-9]+\): a null pointer; pass the addresses of two size_t'
ends captured "$here: the stream is being captured"
ends gradient "$here: DDP_STEP averages this memory, gradient 1 of 1"
call='DDP_REDUCE \(reduces.cu:[0-9]+\)'
ends count "rank 0 is at $call, 1000 float32, sum, rank 1 at $call, 999 float32, sum"
ends kind "rank 0 is at $call, 1000 float32, sum, rank 1 at $call, 1000 int32, maximum"
ends place "rank 0 is at $call, 4 float32, sum, rank 1 at $call, 4 float32 of the host, sum"
ends other-call "rank 0 is at $call, 4 float32, sum, rank 1 at DDP_MEAN"
ends centres-differ 'parameter 1 of 1 .* differs between ranks 0 and 1 at the end of a program without DDP_STEP'
works "centres-differ, never compared" "$ddprun" -n 2 --device softgpu --check-every 0 "$reduces" centres-differ
ends swapped "ranks 0 and 1 differ in call number 21 of DDP_REDUCE: $call, 1000 float32, sum on rank 0, $call, 1000 float32, sum on rank 1"
ends one-knows "rank 0 .*waits at $call, 999 float32, sum.*, (while|and) rank 1.* waits for it in $call, 1000 float32, sum"
ends fewer "rank 1 .*waits at the end of the program.*, (while|and) rank 0.* waits for it in $call, 1000 float32, sum"
fails "swapped, compared every 10 calls" 1 "differ in call number 21 of DDP_REDUCE" "$ddprun" -n 2 --device softgpu --check-every 10 "$reduces" swapped
run "$ddprun" -n 2 --device softgpu --check-every 50 "$reduces" at-steps # where parameters are compared, before call 50 and any end
failed_with "another order, compared at steps" 1 "differ in call number 4 of DDP_REDUCE"
fails "a mean of integers, with one rank" 1 "$here: elements of type int32 have no mean" "$ddprun" -n 1 --device softgpu "$reduces" mean-of-integers
finish
