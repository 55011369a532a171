#!/bin/bash
# fatal.sh PROGRAM - each case of kernels/fatal.cu ends its launch within seconds, with one line that names the kernel and says why; the
# program continues and sees CUDA's error, for good. A kernel that spins is named, and ended by SOFTGPU_TIMEOUT_S. Where there is no kernel, assert() is the host's.
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

# Kernels that do not end: their ticks of 10 ms of a processor's time come each half millisecond, and the program ends after the line.
cat >ticks.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer) {
    __typeof__(&timer_create) next = dlsym(RTLD_NEXT, "timer_create");
    return next(clock == CLOCK_THREAD_CPUTIME_ID ? CLOCK_MONOTONIC : clock, event, timer);
}
int timer_settime(timer_t timer, int flags, const struct itimerspec *value, struct itimerspec *old) {
    __typeof__(&timer_settime) next = dlsym(RTLD_NEXT, "timer_settime");
    const struct timespec tick = {0, value->it_interval.tv_nsec / 20};
    return next(timer, flags, tick.tv_nsec > 0 ? &(struct itimerspec){tick, tick} : value, old);
}
ssize_t write(int file, const void *text, size_t length) {
    long written = syscall(SYS_write, file, text, length);
    if (memmem(text, length, "it has run for", 14) != NULL)
        _exit(7);
    return written;
}
C
run 0 cc -shared -fPIC -o ticks.so ticks.c
if ! grep -aq __tsan_init "$program"; then # ThreadSanitizer keeps signals back
    export ASAN_OPTIONS=verify_asan_link_order=0
    LD_PRELOAD=$PWD/ticks.so ends 7 18 "kernel spins: block (0,0,0), thread (3,0,0): it has run for 10 s, now at 0x"
    LD_PRELOAD=$PWD/ticks.so ends 7 19 "kernel spins_in_loop: it has run for 10 s, now at 0x"
fi

# With a limit such a program ends. A launch that has ended, or was given up, counts no longer: case 20 sleeps for longer than the limit.
SOFTGPU_TIMEOUT_S=1 ends 134 18 "kernel spins, grid (1,3,1), block (40,1,1), launch 1 of this process: it has run for 1 s, the limit"
SOFTGPU_TIMEOUT_S=1 ends 134 19 "kernel spins_in_loop, grid (1,1,1), block (32,1,1), launch 1 of this process: it has run for 1 s"
SOFTGPU_TIMEOUT_S=1 SOFTGPU_WORKERS=3 ends 134 18 "kernel spins, grid (1,3,1)"
SOFTGPU_TIMEOUT_S=2 ends 0 20 "block (1,0,0), thread (2,0,0): __trap()"
SOFTGPU_TIMEOUT_S=2 SOFTGPU_WORKERS=3 ends 0 20 "block (1,0,0), thread (2,0,0): __trap()"
ends 134 9 "fatal.cu:" "x != 7"
finish "$cases cases"
