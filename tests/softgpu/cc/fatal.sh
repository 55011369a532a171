#!/bin/bash
# fatal.sh PROGRAM - each case of kernels/fatal.cu ends by abort(), within seconds, and says why in one line that names the kernel.
set -u
program=$1
failures=0
expect() { # CASE TEXT...
    local number=$1 message status
    shift
    message=$(ulimit -c 0; timeout -k 1 30 "$program" "$number" 2>&1 </dev/null)
    status=$?
    [ $status -eq 134 ] || { echo "FAILED: case $number: exit $status, not 134 (SIGABRT): $message"; failures=$((failures + 1)); }
    for text in "$@"; do
        grep -qF -- "$text" <<<"$message" || { echo "FAILED: case $number lacks '$text': $message"; failures=$((failures + 1)); }
    done
}
expect 0 "kernel half_at_barrier, block (0,0,0): deadlock" "33 wait at __syncthreads" "warp 1 wait in __shfl_sync for lanes 0x80000000"
expect 1 "kernel not_in_mask" "lane 16 of warp 0" "0xffff"
expect 2 "kernel different_collectives" "__any_sync" "__shfl_sync"
expect 3 "kernel too_much_shared" "80000 bytes"
expect 4 "kernel trap" "__trap()"
expect 5 "kernel hidden_barrier" "__syncthreads" "loop"
expect 6 "kernel block_of_another_size" "cub::BlockReduce" "128x1x1" "256x1x1"
[ $failures -eq 0 ]
