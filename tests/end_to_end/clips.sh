#!/usr/bin/env bash
# clips.sh BUILD [MODE...] - steps of which some clip, read or log between DDP_STEP and the update overlap, however gradients become zero;
# where other work differs between steps, they are right. Ordinarily a third of the modes (in_turn). The program knows each weight after each step (tests/trainers/clips.cu).
source "$(dirname "$0")/lib.sh"
modes=("${@:2}")
[ "${#modes[@]}" -gt 0 ] || modes=(scale late norm kernel state copy start gemm device side passes groups graph logs twice missing part again before skip branch both)

# Delays wherever order is not enforced. Buckets by size: no step is one of a trial.
trains() { # MODE SEED
    run env "SOFTGPU_CHAOS=$2" SOFTGPU_LINK=latency_us=300,gbytes_per_s=1 "$ddprun" -n 2 --bucket-mb 0.005 --timeout 120 "$build/tests/trainers/clips" "$1"
}

overlapped_steps() {
    sed -n 's/^ddprun: .* \([0-9]*\) of them overlapped.*/\1/p' "$work/stderr"
}

seeds=(7)
[ "${DDPRUN_SOAK:-0}" -ne 1 ] || seeds=({1..8})
for mode in "${modes[@]}"; do
    [ "$#" -gt 1 ] || in_turn 3 || continue
    for seed in "${seeds[@]}"; do
        trains "$mode" "$seed"
        succeeded "$mode, order $seed: every weight is right"
        case $mode in
        again | before | branch) check "$mode: it is said that steps differ" grep -q 'the kernels that use them differ from step to step' "$work/stderr" ;;
        groups) check "$mode: steps overlap" [ "$(overlapped_steps)" -ge 80 ] ;;
        twice | missing | part | both | skip) check "$mode: steps that are not as learned do not overlap" [ "$(overlapped_steps)" -le 40 ] ;;
        *) check "$mode: steps overlap" [ "$(overlapped_steps)" -ge 40 ] ;;
        esac
    done
done

# What comes after the last touch of the steps before is averaged, too, also if it is known in front of the update.
[ "$#" -eq 1 ] || finish
for mode in behind filled; do
    trains "$mode" 7
    succeeded "$mode: gradients are written after backward, in one step"
    check "$mode: the other steps overlap" [ "$(overlapped_steps)" -ge 40 ]
done
finish
