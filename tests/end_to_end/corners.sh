#!/usr/bin/env bash
# corners.sh BUILD - where two things meet that are followed each for itself: programs train right, or an error names what is wrong.
source "$(dirname "$0")/lib.sh"
limit=90
corners=$build/tests/trainers/corners

for mode in forget-parameter stream-again graph-in-thread all-hidden buffer unload; do
    works "$mode" "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$corners" "$mode"
done
works "tensors of 0 elements" "$ddprun" -n 2 "$corners" empty
check "tensors of 0 elements are none" grep -q ' 4 gradients,' "$work/stderr"
fails "a tensor of 0 elements on one rank only" 1 "rank 0 annotates 4 gradients, rank 1 annotates 5; the first that only one has is number 5, .extra." "$ddprun" -n 2 "$corners" empty-on-one
fails "all of memory whose size CUDA does not know" 1 "DDP_GRADIENT of .malloc.*: the count is DDP_WHOLE, but CUDA has not allocated the memory" \
    "$ddprun" -n 2 "$corners" whole-of-host
fails "the address of a pointer" 1 "DDP_GRADIENT number 5 .*a pointer of the program's to device memory, at 0x[0-9a-f]+, not the device memory: did you mean .statistics.\?" \
    "$ddprun" -n 2 "$corners" pointer
works "a program that prints to descriptors which it has closed" "$ddprun" -n 2 --device softgpu sh -c 'exec "$0" --data "$1" --steps 20 <&- >&- 2>&-' "$digits" "$data"
works "a gradient moves between backward and DDP_STEP" "$ddprun" -n 2 --bucket-mb 0.005 "$corners" annotate-last
CORNERS_ANNOTATED=$work/annotated run "$ddprun" -n 2 "$corners" annotate-aside
failed_with "a buffer annotated in another thread during DDP_STEP" 1 "annotated or forgotten in another thread while DDP_STEP compared"
fails "annotations that name other memory, beside a buffer that kernels reach unseen" 1 "has touched an annotated gradient" "$ddprun" -n 2 "$corners" wrong-memory
fails "a capture of a stream that must be waited for" 1 "on which gradients were touched is being captured" "$ddprun" -n 2 --bucket-mb 0.005 "$corners" capture
works "a device reset in a world of one" "$ddprun" -n 1 "$corners" reset
check "a device reset in a world of one: gradients are the same ones" grep -q ' 4 gradients,' "$work/stderr"
fails "annotations after a device reset" 1 "DDP_PARAMETER .*: ?[0-9]+. after the device was reset" "$ddprun" -n 2 --bucket-mb 0.005 "$corners" reset

# A file that several ranks write by one name: a line for each, and for no other.
mkdir "$work/files"
for n in 2 3; do
    run "$ddprun" -n "$n" --device softgpu --summary-json "$work/end.json" sh -c 'cd "$1" && exec "$0" files >printed' "$corners" "$work/files"
    succeeded "files, $n ranks"
    check "files, $n ranks: one line for each that several write" cmp <(sed -n 's/^.*ddprun: ranks [0-9] and [0-9] write \(.*\): each replaces .*/\1/p' "$work/stderr" | LC_ALL=C sort) \
        <(printf "$work/files/all-%s\n" creat fopen open openat renamed stream)
    check "files, $n ranks: a warning in the summary" python3 -IS -c '
import json, sys
assert {w["key"] for w in json.load(open(sys.argv[1]))["warnings"]} == {"written_by_several"}' "$work/end.json"
done
run "$ddprun" -n 1 --device softgpu sh -c 'cd "$1" && exec "$0" files' "$corners" "$work/files"
check "files, 1 rank: no line" bash -c "! grep -q ' write ' '$work/stderr'"
finish
