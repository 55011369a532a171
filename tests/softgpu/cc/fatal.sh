#!/bin/bash
# fatal.sh PROGRAM - each case of kernels/fatal.cu ends its launch within seconds, with one line that names the kernel and says why; the
# program continues and sees CUDA's error, for good. A kernel that spins is named. Where there is no kernel, assert() is the host's.
program=$(realpath "$1")
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# ends STATUS CASE TEXT...: the program ends its case so, and says each of the texts, of a kernel once at most.
ends() {
    local wanted=$1 status text
    case_ "case $2"
    (
        ulimit -c 0
        timeout -k 1 "$(patient 30)" "$program" "$2" >out 2>&1 </dev/null
    )
    status=$?
    shift 2
    [ "$status" -eq "$wanted" ] || fail "exit $status, not $wanted"
    for text in "$@"; do
        prints "$text"
    done
    [ "$(grep -c 'kernel ' out)" -le 1 ] || fail "the kernel is named more than once"
}

# Each takes 10 s of a processor before it is named, beside the other cases: one of the two in each run.
declare -A spinning=() named=(
    [18]="kernel spins: block (0,0,0), thread (3,0,0): it has run for 10 s, now at 0x"
    [19]="kernel spins_in_loop: it has run for 10 s, now at 0x")
at_exit '[ ${#spinning[@]} -eq 0 ] || kill -9 "${spinning[@]}"'
for case in "${!named[@]}"; do
    chosen "$case" 2 && ! grep -aq __tsan_init "$program" || continue # ThreadSanitizer keeps signals back
    "$program" "$case" >"spins$case" 2>&1 </dev/null &
    spinning[$case]=$!
done

ends 0 0 "kernel half_at_barrier" "block (0,0,0): deadlock" "33 wait at __syncthreads" "warp 1 wait in __shfl_sync for lanes 0x80000000"
ends 0 1 "kernel not_in_mask" "lane 16 of warp 0" "0xffff"
ends 0 2 "kernel different_collectives" "__any_sync" "__shfl_sync"
ends 0 3 "kernel too_much_shared" "80000 bytes"
ends 0 4 "kernel trap" "block (1,0,0), thread (2,0,0): __trap()"
ends 0 5 "kernel hidden_barrier" "__syncthreads" "loop"
ends 0 6 "kernel block_of_another_size" "cub::BlockReduce" "128x1x1" "256x1x1"
ends 0 7 "kernel asserts" "block (0,2,0), thread (1,3,0)" "fatal.cu:" "assertion 'x != 7 && \"in a function\"' failed"
ends 0 8 "kernel deep" "SOFTGPU_STACK_KB"
ends 0 10 "kernel dynamic_with_barrier: it writes byte 4096 of its dynamic shared memory, which has 1024 bytes (third launch argument)"
ends 0 11 "kernel dynamic_with_barrier: it wrote byte 1000 of its dynamic shared memory, which has 1000 bytes"
ends 0 12 "kernel dynamic_write: it writes byte 0 of its dynamic shared memory, which has 0 bytes"
ends 0 13 "kernel dynamic_write: it wrote byte 4 of its dynamic shared memory, which has 4 bytes"
ends 0 14 "kernel dynamic_read: it reads byte 1024 of its dynamic shared memory, which has 1024 bytes"
ends 0 15 "kernel arrivals" "deadlock: of 40 threads, 0 wait at __syncthreads, 40 at a cuda::barrier or cuda::pipeline"
ends 0 16 "kernel arrivals" "2 arrivals at a barrier that waits for 1"
ends 0 17 "kernel misaligned" "4, 8 or 16 can be copied, between places aligned to as many"

# spins CASE TEXT: the kernel does not end, and is named.
spins() {
    case_ "case $1"
    within 60 grep -q 'it has run for' "spins$1" || fail "it says nothing"
    kill -9 "${spinning[$1]}"
    wait "${spinning[$1]}" 2>/dev/null
    unset "spinning[$1]"
    cp "spins$1" out
    prints "$2"
}
for case in "${!spinning[@]}"; do
    spins "$case" "${named[$case]}"
done
ends 134 9 "fatal.cu:" "x != 7"
finish "$cases cases"
