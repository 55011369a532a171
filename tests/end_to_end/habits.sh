#!/usr/bin/env bash
# habits.sh BUILD - trainers with odd habits train right, or get an error that names what is wrong: threads, contexts,
# memory that comes and goes, processes beside the rank.
source "$(dirname "$0")/lib.sh"
limit=90
habits=$build/tests/trainers/habits

# habit RANKS MODE [STEPS]: trains right, and overlaps.
habit() {
    in_turn 3 || return 0
    works "$2, $1 ranks" "$ddprun" -n "$1" --bucket-mb 0.01 --check-every 1 "$habits" "${@:2}"
    overlapped "$2, $1 ranks"
}

habit 2 plain
habit 2 worker
habit 2 thread-per-backward 80
habit 2 step-in-thread
habit 2 lazy
habit 2 annotate-late
habit 2 loader
habit 2 another-context
habit 3 slow-rank
for seed in 1 2 3; do
    SOFTGPU_CHAOS=$seed habit 3 two-threads 30
done

# One rank: the same, and nothing is averaged.
works "lazy, a world of one" "$ddprun" -n 1 "$habits" lazy

computes_alike "a kernel after backward that writes nothing at first" "$habits" rare-write 14
fails "DDP_MEAN of device memory before any annotation" 1 'DDP_MEAN .on_device. .*: device memory; pass a float or double in host memory' "$ddprun" -n 2 "$habits" mean-first
works "a program that is linked with libcuda and only prints its usage" "$ddprun" -n 2 "$habits" usage

# NCCL works in the device's primary context, and so does ddprun.
foreign='a context that is not the device.s primary one, in which NCCL works: make the primary context current'
fails "memory of another context" 1 "DDP_PARAMETER number 1 \(.weights\[l\]., .*: memory of $foreign" "$ddprun" -n 2 "$habits" own-context
works "memory of another context, a world of one" "$ddprun" -n 1 "$habits" own-context
fails "a stream of another context" 1 "a stream with work on gradients, .* is of $foreign" "$ddprun" -n 2 "$habits" foreign-stream
fails "the default stream of another context" 1 "work on gradients uses the default stream of $foreign" "$ddprun" -n 2 "$habits" foreign-default
fails "DDP_STEP on the default stream of another context" 1 "DDP_STEP \(.*habits.cu:[0-9]+\) uses the default stream of $foreign" "$ddprun" -n 2 "$habits" foreign-step
fails "DDP_STEP on a stream of another context" 1 "the one that DDP_STEP names, is of $foreign" "$ddprun" -n 2 "$habits" foreign-step-stream

fails "a rank that hangs in the middle of backward" 1 "has waited $patience s for the other ranks" "$ddprun" -n 2 --bucket-mb 0.01 --timeout "$patience" "$habits" hang
finish
