#!/usr/bin/env bash
# escapes.sh BUILD - gradients that kernels reach through pointers in memory are averaged right, at DDP_STEP, and the others as early as
# ever; ddprun says once how many wait, and why.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
escapes=$build/tests/trainers/escapes

# escape RANKS MODE: trains right; buckets without the two hidden gradients leave early; the reason is said once.
escape() {
    run "$ddprun" -n "$1" --bucket-mb 0.005 --check-every 1 "$escapes" "$2"
    succeeded "$2, $1 ranks"
    check "$2, $1 ranks: others overlap" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    check "$2, $1 ranks: says so once" [ "$(grep -c '2 of 6 gradients are averaged at DDP_STEP' "$work/stderr")" -eq 1 ]
}

for mode in once after each-step constant packed columns any-direction optimizer managed pinned batched; do
    escape 2 "$mode"
done
for seed in 1 2 3; do
    export SOFTGPU_CHAOS=$seed
    for mode in optimizer constant each-step batched; do
        escape 3 "$mode"
    done
    unset SOFTGPU_CHAOS
done

# Nobody knows what is in arrays that a kernel has built: all waits for DDP_STEP.
run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" batched-built
succeeded "arrays of pointers built by a kernel"

run "$ddprun" -n 1 "$escapes" once
succeeded "a world of one"
run "$ddprun" -n 2 --bucket-mb 0.005 "$escapes" too-late
failed_with "an address that is copied after its gradient has left" 1 "address of gradient .gradients\[l\]. .* was copied to the device after"
finish
