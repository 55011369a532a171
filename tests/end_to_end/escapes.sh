#!/usr/bin/env bash
# escapes.sh BUILD - gradients that kernels reach through pointers in memory are averaged right, at DDP_STEP, and the others as early as
# ever; ddprun says once how many wait, and why.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
limit=90
escapes=$build/tests/trainers/escapes

# escape RANKS MODE: trains right; buckets without the two hidden gradients are launched early; the reason is said once.
escape() {
    in_turn 3 || return 0
    run "$ddprun" -n "$1" --bucket-mb 0.005 --check-every 1 "$escapes" "$2"
    succeeded "$2, $1 ranks"
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
SOFTGPU_TENSOR_MAPS=raw run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" map
succeeded "raw tensor maps"
check "raw tensor maps: all overlap, and nothing waits" bash -c \
    "grep -Eq ' [1-9][0-9]* of them overlapped' '$work/stderr' && ! grep -q 'are averaged at DDP_STEP' '$work/stderr'"

# Where the process may not look at its own memory by system call.
deny=$build/tests/end_to_end/deny_peek
if "$deny" true 2>"$work/stderr"; then
    for mode in pinned managed any-direction; do
        in_turn 3 || continue
        run "$ddprun" -n 2 --device softgpu --bucket-mb 0.005 --check-every 1 "$deny" "$escapes" "$mode"
        succeeded "$mode, process_vm_writev forbidden"
        check "... the others overlap" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    done
    run "$ddprun" -n 2 --device softgpu --bucket-mb 0.005 --check-every 1 "$deny" --all "$escapes" pinned
    succeeded "pinned, nothing can be looked into"
    check "... is reported, and no bucket is launched early" bash -c "grep -q 'cannot be searched for addresses here' '$work/stderr' &&
        grep -q ' 0 of them overlapped' '$work/stderr'"
else
    cat "$work/stderr"
fi

# The program itself says when they are complete: then they are launched early, too.
run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 --trace "$work/trace" "$escapes" declared
succeeded "declared ready"
check "declared ready: all buckets are launched early at the end" bash -c \
    "grep '^{.step.:' '$work/trace/rank-0.jsonl' | tail -n 1 | grep '\"early\":true' | grep -qv '\"early\":false'"
check "declared ready: nothing waits" bash -c "! grep -q 'are averaged at DDP_STEP' '$work/stderr'"

# ddprun does not know what is in arrays that a kernel has built: all gradients are deferred to DDP_STEP.
run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" batched-built
succeeded "arrays of pointers built by a kernel"

# A driver that does not report the parameters of kernels: library calls and DDP_GRADIENT_READY say what is complete.
# For an engine that asks for other names every driver is one.
if [ "$sanitized" -eq 0 ]; then
    mkdir -p "$work/older/bin" "$work/older/lib"
    cp "$ddprun" "$work/older/bin/"
    ln -s "$build/lib/"* "$work/older/lib/"
    rm "$work/older/lib/libddprun-engine.so"
    deaf() { # NAME...: an engine that asks for other names
        local edits=() name
        for name in "$@"; do edits+=(-e "s/$name/${name%?}X/g"); done
        LC_ALL=C sed "${edits[@]}" "$build/lib/libddprun-engine.so" >"$work/older/lib/libddprun-engine.so"
    }
    older() { # NAME PROGRAM...
        run "$work/older/bin/ddprun" -n 2 --bucket-mb 0.004 --check-every 1 "${@:2}"
        succeeded "an older driver, $1"
        check "an older driver, $1: reported once" [ "$(grep -c "$says" "$work/stderr")" -eq 1 ]
    }
    overlapped='of them overlapped'
    says='does not report the parameters of kernels'
    deaf cuFuncGetParamInfo cuKernelGetParamInfo
    older "kernels only" "$build/tests/trainers/steps" plain
    check "an older driver, kernels only: no bucket is launched early" grep -q ' 0 of them overlapped' "$work/stderr"
    older "gradients declared ready" "$build/tests/trainers/steps" ready
    check "an older driver, gradients declared ready: overlaps" grep -Eq " [1-9][0-9]* $overlapped" "$work/stderr"
    run "$digits_plain" --data "$data" --batch 96 --steps 30 --seed 5 --save "$work/serial"
    older "library calls" "$digits" --data "$data" --batch 96 --steps 30 --seed 5 --save "$work/rank-%d"
    check "an older driver, library calls: overlaps" grep -Eq " [1-9][0-9]* $overlapped" "$work/stderr"
    check "an older driver, library calls: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5

    # Only some handles are unknown: launches of those count as work on everything, and others are followed.
    says='does not report the parameters of kernel [a-z_]*gradient[a-z_]*:'
    mixed=$build/tests/matrix/mixed_shared
    run "$mixed" --save "$work/serial"
    deaf cuFuncGetParamInfo
    older "unknown functions" "$mixed" --save "$work/rank-%d"
    check "an older driver, unknown functions: overlaps" grep -Eq " [1-9][0-9]* $overlapped" "$work/stderr"
    check "an older driver, unknown functions: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
fi

run "$ddprun" -n 1 "$escapes" once
succeeded "a world of one"

# An address that is copied after its gradient's bucket was launched: nothing ends unless a kernel of the same step
# writes through it.
lost='^ddprun: in step 9 a copy to the device held the address of gradient 1 of 6 .* averaged at DDP_STEP'
for mode in too-late too-late-used; do
    run "$ddprun" -n 2 --bucket-mb 0.005 --check-every 1 "$escapes" "$mode" 160
    succeeded "$mode"
    check "$mode: says once that overlap is lost" [ "$(grep -c "$lost" "$work/stderr")" -eq 1 ]
    check "$mode: the next plan defers them" grep -q '2 of 6 gradients are averaged at DDP_STEP' "$work/stderr"
done
run "$ddprun" -n 2 --bucket-mb 0.005 "$escapes" too-late-written
check "too-late-written: ends" [ "$code" -eq 1 ]
check "too-late-written: says why" grep -Eq \
    '^ddprun: .*gradient [12] of 6 .* was changed in step 9 after it had been averaged, by a kernel that read its address' "$work/stderr"
finish
