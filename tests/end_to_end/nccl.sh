#!/usr/bin/env bash
# nccl.sh BUILD - training is right with NCCLs and drivers as they are on machines with GPUs: those that call the runtime, whose ranks
# meet on the host, that take device memory (softgpu/docs/softgpu.md, "Environment").
source "$(dirname "$0")/lib.sh"
deviates=$build/tests/trainers/deviates
limit=60

# trains NAME [VARIABLE=VALUE...] PROGRAM ARGUMENTS...: $ranks ranks, in small buckets, and every weight is right.
ranks=2
trains() {
    local name="$1, $ranks ranks" settings=()
    shift
    while [[ $1 == *=* ]]; do
        settings+=("$1")
        shift
    done
    run env "${settings[@]}" "$ddprun" -n "$ranks" --device softgpu --bucket-mb 0.0325 --timeout "$(patient 20)" "$@"
    succeeded "$name"
    check "$name: the weights are right on all" [ "$(grep -c 'the weights are right' "$work/stdout")" -eq "$ranks" ]
}

trains "no switch" "$deviates" reduce
trains "a program that has used NCCL before" "${deviates}_own" own

# The whole table, a fifth of it in each run. NCCL's own calls of the runtime are none of the trainer's: in its threads, and in those
# that it starts. With NVLS ranks meet on the host, in calls with registered memory, or in all: a rank that sends at DDP_STEP would not come.
# A driver for CUDA 12 loads nothing that is made for CUDA 13. NCCL takes memory. Where the rank waits in a barrier of the program's own,
# ddprun cannot send for it meanwhile.
for ranks in 2 3; do
    for switch in SOFTGPU_NCCL_CALLS=0 SOFTGPU_NCCL_CALLS=1 SOFTGPU_NCCL_MEETS=registered SOFTGPU_NCCL_MEETS=all SOFTGPU_DRIVER=12040 SOFTGPU_NCCL_TAKES=50; do
        for mode in none mean after barrier; do
            in_turn 5 || continue
            rm -f "$work/barrier"
            trains "$switch, $mode" "$switch" "$deviates" "$mode" --barrier "$work/barrier"
        done
    done
done
ranks=2
trains "an NCCL that calls the runtime, and its second communicator" SOFTGPU_NCCL_CALLS=1 "$deviates" reduce
trains "an NCCL that calls the runtime, used by the program before" SOFTGPU_NCCL_CALLS=1 "${deviates}_own" own

# Ranks connect by algorithm, at its first use: each size of a plan has had its own before a rank sends early and another one does not.
rm -f "$work/barrier"
trains "an algorithm that a plan needs first" "$deviates" barrier --barrier "$work/barrier" --uneven 1 --count 256 --deviate 3 --steps 4
# The words of a step are added once before the first plan counts, after the first all-reduce, and then in each step that begins before DDP_STEP.
COUNT_NCCL=$work/count trains "a counter in front of NCCL" --nccl "$build/tests/end_to_end/libcount_nccl.so" -v "$deviates" none --steps 20
overlapped=$(sed -nE 's/.* ([0-9]+) of them overlapped.*/\1/p' "$work/stderr")
check "ranks are connected for the words of a step, too: $overlapped steps overlapped, sums $(cut -d ' ' -f 3 "$work"/count.* | xargs)" \
    [ "$(cut -d ' ' -f 3 "$work"/count.* | xargs)" = "$((overlapped + 2)) $((overlapped + 2))" ]
# A program that has taken most memory before NCCL starts.
trains "NCCL takes memory, and there is enough" SOFTGPU_NCCL_TAKES=100 SOFTGPU_MEMORY_BYTES=1000000000 "$deviates" after --leave 150
fails "NCCL takes more memory than there is" 1 \
    'ncclCommInitRankConfig: .*CUDA_ERROR_OUT_OF_MEMORY.*; the device had 1[45][0-9] MiB free before, 1[45][0-9] MiB after: let the program leave 1536 MiB \(--reserve 1536 .*, or lower .*NCCL_BUFFSIZE' \
    env SOFTGPU_NCCL_TAKES=200 SOFTGPU_MEMORY_BYTES=1000000000 "$ddprun" -n 2 --device softgpu "$deviates" after --leave 150
trains "--reserve leaves memory to NCCL" SOFTGPU_NCCL_TAKES=200 SOFTGPU_MEMORY_BYTES=1000000000 --reserve 300 "$deviates" after --leave 0
fails "too little is left to ddprun" 1 'rank [01] .*failed: CUDA_ERROR_OUT_OF_MEMORY; if the program takes all memory of the device, --reserve 1536 leaves some to ddprun' \
    env SOFTGPU_MEMORY_BYTES=1000000000 "$ddprun" -n 2 --device softgpu --reserve 1.5 "$deviates" after --leave 0
works "a world of one has all memory" env SOFTGPU_MEMORY_BYTES=1000000000 "$ddprun" -n 1 --device softgpu --reserve 300 "$deviates" after --leave 0

fails "NCCL does not start, and memory was no matter" 1 'ncclCommInitRankConfig: .*; NCCL_NVLS_ENABLE=0 helps where NVLS cannot start' \
    env SOFTGPU_NCCL_TAKES=20000 "$ddprun" -n 2 --device softgpu "$deviates" after

# Each rank has a GPU of its own, unless something between ddprun and the program chooses another.
SOFTGPU_DEVICES=2 trains "each rank has a GPU" "$deviates" none
fails "a script that gives all ranks one GPU" 1 'ranks 0 and 1 use the same GPU, 0000:[0-9a-f:.]+, which NCCL refuses; does a script' \
    env SOFTGPU_DEVICES=2 "$ddprun" -n 2 --device softgpu sh -c 'CUDA_VISIBLE_DEVICES=0 exec "$0" none' "$deviates"
SOFTGPU_DEVICES=1 trains "ranks that may share a GPU" --share-gpu "$deviates" none

# A second witness: another NCCL, which does the same in its own way; and one with a plug-in.
for does in calls thread plugin registered all; do
    for mode in none mean after barrier; do
        in_turn 5 || continue
        rm -f "$work/rounds" "$work/barrier"
        trains "a wrapper that does $does, $mode" WRAP_NCCL=$does WRAP_FILE="$work/rounds" WRAP_PLUGIN="$build/tests/end_to_end/libplug_nccl.so" \
            --nccl "$build/tests/end_to_end/libwrap_nccl.so" "$deviates" "$mode" --barrier "$work/barrier"
    done
done

# What is added first is known: damage that is alike on all ranks is seen, and an operation that does not end is explained.
fails "sums are damaged on their way" 1 \
    'the first all-reduce is wrong: of known numbers the sum at place 0 is [0-9]+, not [0-9]+\..*NCCL_P2P_DISABLE=1 tells' \
    env SOFTGPU_NCCL_CORRUPTS=1 "$ddprun" -n 2 --device softgpu "$deviates" none
run env DDPRUN_TEST_FIRST_MS=300 WRAP_NCCL=stalls "$ddprun" -n 2 --device softgpu --timeout 5 --nccl "$build/tests/end_to_end/libwrap_nccl.so" "$deviates" none
check "a first all-reduce that does not end: a hint" grep -q 'the first all-reduce has not ended in [0-9]* s, and all ranks have come to it: NCCL_P2P_DISABLE=1 tells' "$work/stderr"
check "a first all-reduce that does not end: the job ends by name" grep -q 'the first all-reduce has waited 5 s' "$work/stderr"

fails "an NCCL that does not return" 1 \
    'ncclCommInitRankConfig: all ranks have come, and NCCL has not returned within 3 s \(--timeout\); NCCL_DEBUG=INFO shows' \
    "$ddprun" -n 2 --device softgpu --timeout 3 --nccl "$build/tests/end_to_end/libstuck_nccl.so" "$deviates" none
finish
