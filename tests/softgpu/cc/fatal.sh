#!/bin/bash
# fatal.sh PROGRAM - each case of kernels/fatal.cu ends its launch within seconds, with one line that names the kernel and says why; the
# program goes on and sees CUDA's error, for good. Where there is no kernel, assert() is the host's.
set -u
program=$1
failures=0
run() { # STATUS CASE TEXT...
    local wanted=$1 number=$2 message status
    shift 2
    message=$(ulimit -c 0; timeout -k 1 30 "$program" "$number" 2>&1 </dev/null)
    status=$?
    [ $status -eq "$wanted" ] || { echo "FAILED: case $number: exit $status, not $wanted: $message"; failures=$((failures + 1)); }
    for text in "$@"; do
        grep -qF -- "$text" <<<"$message" || { echo "FAILED: case $number lacks '$text': $message"; failures=$((failures + 1)); }
    done
    [ "$(grep -c 'kernel ' <<<"$message")" -le 1 ] || { echo "FAILED: case $number says it more than once: $message"; failures=$((failures + 1)); }
}
expect() { run 0 "$@"; }
expect 0 "kernel half_at_barrier" "block (0,0,0): deadlock" "33 wait at __syncthreads" "warp 1 wait in __shfl_sync for lanes 0x80000000"
expect 1 "kernel not_in_mask" "lane 16 of warp 0" "0xffff"
expect 2 "kernel different_collectives" "__any_sync" "__shfl_sync"
expect 3 "kernel too_much_shared" "80000 bytes"
expect 4 "kernel trap" "block (1,0,0), thread (2,0,0): __trap()"
expect 5 "kernel hidden_barrier" "__syncthreads" "loop"
expect 6 "kernel block_of_another_size" "cub::BlockReduce" "128x1x1" "256x1x1"
expect 7 "kernel asserts" "block (0,2,0), thread (1,3,0)" "fatal.cu:" "assertion 'x != 7 && \"in a function\"' failed"
expect 8 "kernel deep" "SOFTGPU_STACK_KB"
expect 10 "kernel dynamic_with_barrier: it writes byte 4096 of its dynamic shared memory, which has 1024 bytes (third launch argument)"
expect 11 "kernel dynamic_with_barrier: it wrote byte 1000 of its dynamic shared memory, which has 1000 bytes"
expect 12 "kernel dynamic_write: it writes byte 0 of its dynamic shared memory, which has 0 bytes"
expect 13 "kernel dynamic_write: it wrote byte 4 of its dynamic shared memory, which has 4 bytes"
expect 14 "kernel dynamic_read: it reads byte 1024 of its dynamic shared memory, which has 1024 bytes"
run 134 9 "fatal.cu:" "x != 7"
[ $failures -eq 0 ]
