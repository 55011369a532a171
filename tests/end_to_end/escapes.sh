#!/usr/bin/env bash
# escapes.sh BUILD - gradients that kernels reach through pointers in memory are averaged right, at DDP_STEP, and the others as early as
# ever; ddprun says once how many wait, and why.
source "$(dirname "$0")/lib.sh"
limit=90
escapes=$build/tests/trainers/escapes

# escape RANKS MODE: trains right; buckets without the two hidden gradients are launched early; the reason is said once.
escape() {
    in_turn 3 || return 0
    works "$2, $1 ranks" "$ddprun" -n "$1" --bucket-mb 0.005 --check-every 1 "$escapes" "$2"
    check "$2, $1 ranks: others overlap" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    check "$2, $1 ranks: reported once" [ "$(grep -c '2 of 6 gradients are averaged at DDP_STEP' "$work/stderr")" -eq 1 ]
}

for mode in once after each-step odd odd-late constant packed columns any-direction optimizer managed pinned batched; do
    escape 2 "$mode"
done
for seed in 1 2 3; do
    export SOFTGPU_CHAOS=$seed
    for mode in optimizer constant each-step batched; do
        escape 3 "$mode"
    done
    unset SOFTGPU_CHAOS
done

# Tensor maps: where an address stands in them as it is, a launch shows which gradients it touches; where it does not, they wait.
for mode in map map-im2col map-wide map-replace; do
    SOFTGPU_TENSOR_MAPS=scrambled escape 2 "$mode"
done
SOFTGPU_TENSOR_MAPS=scrambled SOFTGPU_CHAOS=1 escape 3 map
SOFTGPU_TENSOR_MAPS=raw works "raw tensor maps" "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" map
check "raw tensor maps: all overlap, and nothing waits" bash -c \
    "grep -Eq ' [1-9][0-9]* of them overlapped' '$work/stderr' && ! grep -q 'are averaged at DDP_STEP' '$work/stderr'"

# Where the process may not look at its own memory by system call.
deny=$build/tests/end_to_end/deny_peek
if "$deny" true 2>"$work/stderr"; then
    for mode in pinned managed any-direction; do
        in_turn 3 || continue
        works "$mode, process_vm_writev forbidden" "$ddprun" -n 2 --device softgpu --bucket-mb 0.005 --check-every 1 "$deny" "$escapes" "$mode"
        check "... the others overlap" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    done
    works "pinned, nothing can be looked into" "$ddprun" -n 2 --device softgpu --bucket-mb 0.005 --check-every 1 "$deny" --all "$escapes" pinned
    check "... is reported, and no bucket is launched early" bash -c "grep -q 'cannot be searched for addresses here' '$work/stderr' &&
        grep -q ' 0 of them overlapped' '$work/stderr'"
else
    cat "$work/stderr"
fi

# The program itself says when they are complete: then they are launched early, too.
works "declared ready" "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 --trace "$work/trace" "$escapes" declared
check "declared ready: all buckets are launched early at the end" bash -c \
    "grep '^{.step.:' '$work/trace/rank-0.jsonl' | tail -n 1 | grep '\"early\":true' | grep -qv '\"early\":false'"
check "declared ready: nothing waits" bash -c "! grep -q 'are averaged at DDP_STEP' '$work/stderr'"

# ddprun does not know what is in arrays that a kernel has built: all gradients are deferred to DDP_STEP.
works "arrays of pointers built by a kernel" "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" batched-built

# A driver that lacks a call, and one that refuses it for handles of one kind. For an engine that asks for another name every driver
# is one. Launches of unknown handles count as work on everything, and others are followed.
if [ "$sanitized" -eq 0 ]; then
    mkdir -p "$work/other/bin" "$work/other/lib"
    cp "$ddprun" "$work/other/bin/"
    ln -s "$build/lib/"* "$work/other/lib/"
    rm "$work/other/lib/libddprun-engine.so"
    mixed=$build/tests/matrix/mixed_shared
    asks_for() { # NAME: instead of cuFuncGetParamInfo
        LC_ALL=C sed "s/cuFuncGetParamInfo/$1/g" "$build/lib/libddprun-engine.so" >"$work/other/lib/libddprun-engine.so"
        run "$work/other/bin/ddprun" -n 2 --bucket-mb 0.004 --check-every 1 "$mixed" --save "$work/rank-%d"
    }
    asks_for cuFuncGetParamInfX
    failed_with "an older driver" 1 'the CUDA driver has no cuFuncGetParamInfX .as of CUDA 12.4.; ddprun needs a driver for CUDA 12.4'
    asks_for cuMulticastBindMem # which is not supported
    succeeded "unknown functions"
    check "unknown functions: reported once" [ "$(grep -c 'does not report the parameters of kernel [a-z_]*gradient[a-z_]*:' "$work/stderr")" -eq 1 ]
    check "unknown functions: overlaps" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    run "$mixed" --save "$work/serial"
    check "unknown functions: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
fi

works "a world of one" "$ddprun" -n 1 "$escapes" once

# An address that is copied after its gradient's bucket was launched, whether or not a kernel of the same step writes through it.
lost='^ddprun: in step 9 a copy to the device held the address of gradient 1 of 6 .* averaged at DDP_STEP'
for mode in too-late too-late-used; do
    works "$mode" "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" "$mode" 160
    check "$mode: says once that overlap is lost" [ "$(grep -c "$lost" "$work/stderr")" -eq 1 ]
    check "$mode: the next plan defers them" grep -q '2 of 6 gradients are averaged at DDP_STEP' "$work/stderr"
done
computes_alike "too-late-written" "$escapes" too-late-written
finish
