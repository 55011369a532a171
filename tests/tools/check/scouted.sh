# shellcheck shell=bash disable=SC2154 # judge.sh sources it
# scouted.sh - beside scouted.txt: scout itself names memory that lacks an annotation, as check does.
after() {
    run "$ddprun" scout "$rows" "${few[@]}" forgotten_gradient
    check "a gradient" grep -Eq '^missing: DDP_GRADIENT for 80 elements \(float32\) of the memory allocated at trainer_memory.h:[0-9]+' "$work/stdout"
    for habit in own fused; do
        run "$ddprun" scout "$build/tests/tools/scout/border" $habit short
        check "$habit: all of a parameter but its last element" grep -Eq '^missing: DDP_PARAMETER for 1 of 640 elements \(float64\) of the memory allocated at border.cu:' "$work/stdout"
    done
}
