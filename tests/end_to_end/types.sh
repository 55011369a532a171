#!/usr/bin/env bash
# types.sh BUILD - gradients of every type come back as their exact mean, whichever default stream the program was compiled
# for, and keep their identity when their memory moves.
source "$(dirname "$0")/lib.sh"

for flavour in legacy per_thread; do
    for mode in steady move forget; do
        works "$flavour default stream, $mode" "$ddprun" -n 2 "$build/tests/trainers/types_$flavour" "$mode"
        overlapped "$flavour default stream, $mode"
    done
done

# What ddprun says once, and what it does not say.
works "shares that differ by one" "$ddprun" -n 2 "$ladder" --batch 25
check "shares that differ by one: said once" [ "$(grep -c 'do not divide evenly' "$work/stderr")" -eq 1 ]
run "$ddprun" -n 3 "$ladder" --batch 2 # launches without blocks fail, which is the trainer's
check "a share of nothing: said" grep -q ': 2 items for 3 ranks: ranks from 2 on have no item' "$work/stderr"
run "$ddprun" -n 2 "$ladder" --batch 24
check "equal shares: nothing said" bash -c "! grep -q 'do not divide evenly' '$work/stderr'"

# Ranks that copy the same batches are warned about once; the trainer shards by DDP_SHARD unless asked not to.
check "other batches: nothing said" bash -c "! grep -q 'copied the same' '$work/stderr'"
works "the same batches on all ranks" "$ddprun" -n 3 "$ladder" --fault same-batches
check "the same batches on all ranks: said once" [ "$(grep -c 'ranks 0 and 1 copied the same 3 batches' "$work/stderr")" -eq 1 ]
check "the same batches on all ranks: nothing said of the gradients, which are equal for that" bash -c "! grep -q 'bit for bit' '$work/stderr'"

# One that calls DDP_SHARD in each step may take its share on the device: gradients say that this one does not.
works "the same batches, shared out in each step" "$ddprun" -n 3 "$ladder" --fault shared-anew
check "the same batches, shared out in each step: gradients decide" bash -c "! grep -q 'copied the same' '$work/stderr' && grep -q 'bit for bit' '$work/stderr'"

# Where the data lie on the device from the start, only gradients show whether ranks copy the same batches.
works "the same data on all devices" "$ddprun" -n 3 "$ladder" --resident 1 --fault same-batches
check "the same data on all devices: said once, by step 5" [ "$(grep -c 'the gradients of all 3 ranks are equal, bit for bit, in steps 2 to 4' "$work/stderr")" -eq 1 ]
works "each rank's share on its device" "$ddprun" -n 3 "$ladder" --resident 1
check "each rank's share on its device: nothing said" bash -c "! grep -Eq 'bit for bit|copied the same' '$work/stderr'"
if [ "$device" = softgpu ] && [ -d "$build/tests/tools" ]; then # the bundle for GPUs has no programs of check
    works "gradients that are made of an average of the program's own" "$ddprun" -n 2 "$build/tests/tools/check/rows" loss_in_gradient
    check "gradients that are made of an average of the program's own: nothing said" bash -c "! grep -q 'bit for bit' '$work/stderr'"
fi

# Gradients that keep momentum grow without bounds where they become sums.
small=(--layers 2 --width 8 --batch 8 --steps 240 --carry 0.9)
works "training that diverges continues, as on one GPU" "$ddprun" -n 2 --reduce sum "$ladder" "${small[@]}"
check "training that diverges: said once, with the last step that was finite" [ "$(grep -Ec \
    '^ddprun: parameter [12] of 2 \(.* holds infinite values or NaN after step 200; all parameters were finite after step 100: the training diverges \(--reduce sum' "$work/stderr")" -eq 1 ]
works "the same with means" "$ddprun" -n 2 "$ladder" "${small[@]}"
check "the same with means: nothing said" bash -c "! grep -q 'infinite' '$work/stderr'"
finish
