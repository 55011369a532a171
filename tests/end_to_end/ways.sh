#!/usr/bin/env bash
# ways.sh BUILD - gradients are averaged, and early, whichever operation of the driver writes them; memory that goes is waited for, stays, or ends the job.
source "$(dirname "$0")/lib.sh"
limit=90
ways=$build/tests/trainers/ways

# way MODE: trains right, and overlaps.
way() {
    works "$1" "$ddprun" -n 2 --bucket-mb 0.001 --check-every 1 "$ways" "$1"
    # On the stand-in variables are the program's own memory: the driver is not asked for their addresses, which may therefore have
    # been copied unseen, and they wait for DDP_STEP.
    [ "$1" != variables ] || return
    overlapped "$1"
}

for mode in launch launch-ex cooperative driver-launch copy host-copy peer rows block peer-block batch batch-block fill values \
    batch-values unmap chunks pool release; do
    way "$mode"
done

# Whether these overlap depends on how the runtime finds variables.
works "gradients in variables of the program" "$ddprun" -n 2 --bucket-mb 0.001 --check-every 1 "$ways" variables

# Launches by the runtime, the driver and a library in one program overlap as many steps as those of one kind.
overlapped_steps() { # PROGRAM
    run "$ddprun" -n 2 --bucket-mb 0.01 "$build/tests/matrix/$1"
    grep -o '[0-9]* of them overlapped' "$work/stderr"
}
check "launches of every kind: all steps overlap that do without the mix" [ "$(overlapped_steps mixed_shared)" = "$(overlapped_steps mlp_shared)" ]
check "... and they are 9 of 12" grep -q '12 steps, 9 of them overlapped' "$work/stderr"

fails "a call that ddprun cannot follow" 1 "calls cuLaunchGrid, in a version or form that this ddprun cannot follow" "$ddprun" -n 2 "$ways" old-launch
run "$ddprun" -n 2 --bucket-mb 0.001 "$ways" free-early
failed_with "a gradient freed with its bucket in flight" 1 "gradient [0-9]+ of [0-9]+ \(.gradients\[l\]., .* was freed and not annotated again"
fails "a device reset with buckets in flight" 1 "after the device was reset" "$ddprun" -n 2 --bucket-mb 0.001 "$ways" reset-early
finish
