#!/usr/bin/env bash
# corners.sh BUILD - where two things meet that are followed each for itself: the program trains right, or gets an error
# that names what is wrong.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
corners=$build/tests/trainers/corners

for mode in forget-parameter stream-again graph-in-thread all-hidden buffer; do
    run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$corners" "$mode"
    succeeded "$mode"
done
run "$ddprun" -n 2 --bucket-mb 0.005 "$corners" annotate-last
failed_with "a gradient annotated again after it was averaged" 1 \
    "DDP_GRADIENT .gradients\[0\]. .*: gradients of this step have been averaged already"
run "$ddprun" -n 2 "$corners" wrong-memory
failed_with "annotations that name other memory, beside a buffer that kernels reach unseen" 1 "has touched an annotated gradient"
run "$ddprun" -n 2 --bucket-mb 0.005 "$corners" capture
failed_with "a capture of a stream that must be waited for" 1 "on which gradients were touched is being captured"
run "$ddprun" -n 1 "$corners" reset
succeeded "a device reset in a world of one"
check "a device reset in a world of one: gradients are the same ones" grep -q ' 4 gradients,' "$work/stderr"
run "$ddprun" -n 2 --bucket-mb 0.005 "$corners" reset
failed_with "annotations after a device reset" 1 "DDP_PARAMETER .*: ?[0-9]+. after the device was reset"
finish
