# shellcheck shell=bash disable=SC2034,SC2154 # judge.sh sources it
# place.sh - beside place.txt: right programs, in which a look at a step names no operation, and a cudart inside the program.
place=$build/tests/tools/check/place

# quiet TENSORS PROGRAM: a look at a step before the gradient, and at the update after it, names no operation.
quiet() {
    local tensor command variables
    command_of "$2"
    for tensor in $1; do
        run env "_DDPRUN_CHECK_LOOK=$tensor" "$ddprun" check -n 2 --steps 6 "${command[@]}"
        check "$2, look at $tensor: equal" [ "$code" -eq 0 ]
        check "$2, look at $tensor: no place" bash -c "! grep 'a place in an equal program' '$work/stderr'"
    done
}

after() {
    # Sums of DDP_REDUCE that ranks add in another order move the gradients as far as this one differs: no kernel is named for it.
    command_of held/check3/right_03_survey
    checked 2 "" "${command[@]}"
    check "rounding of sums over ranks: a reason" grep -Eq '^not comparable: gradient 1 of 1, .*runs of one process differ as much' "$work/stdout"
    # Each rank's momentum is its own where parameters are averaged; nothing but the update gets it, and no parameter differs.
    command_of held/check7/right_03_tones
    checked 2 "" "${command[@]}"
    report "momentum of each rank's own is no difference" "$(why_not 0 null -)"
    check "the table says whose it is" grep -q "the rank's own$" "$work/stdout"
    checked 2 "" "$place" freed
    report "memory of each step alone is no difference" "$(why_not 0 null -)"
    checked 2 "" "$place" mean
    report "a mean that is only shown is no difference" "$(why_not 0 null -)"
    check "it is a warning" grep -Eq '^warning: in step 1 DDP_MEAN `&sum` \(place.cu:[0-9]+\) differs from that of one process' "$work/stdout"
    check "its type is the program's" grep -Eq '^mean 1 +1  float64 ' "$work/stdout"

    # A norm of a rank's own gradients, whose bound no step reaches, and one of averaged gradients.
    for mode in norm own_norm late_norm; do
        checked 2 "" "$place" "$mode"
        report "$mode: equal" "$(why_not 0 null -)"
        check "$mode: what is not compared" [ "$(grep -cE '^not compared: what the host reads, at place.cu:[0-9]+, of gradients that DDP_STEP has not averaged' "$work/stdout")" -eq $((${#mode} < 9)) ]
        check "$mode: it is no loss" bash -c "! grep 'a loss or count' '$work/stdout'"
    done

    # Some steps clip own gradients: by chance the mean is a multiple of one process's gradient there, but no update differs.
    checked 2 "" "$place" norm 0.2
    check "clipping before DDP_STEP is a difference of gradients alone" [ "$code, $(grep 'DIFFERS$' "$work/stdout" | cut -c 1-9)" = "1, gradient " ]
    checked 2 "" "$build/tests/tools/check/jury/losses" mixup_by_rank
    check "records mixed by random numbers are no other items" grep -Eq '^not comparable: in step 1 .* are not its share of those that one process copies' "$work/stdout"

    # Doubles, weighted shares, a group whose backward comes after the first DDP_STEP, a factor that the update takes back; what rank 0 alone
    # adds for all, or computes besides; one memory for a mean and a count; micro-batches of shares that are not equal; values that forward
    # overwrites; 16-bit gradients that an update widens over the rank's own; two passes that add to a gradient.
    while IFS='|' read -r tensors program; do
        in_turn 5 || continue
        quiet "$tensors" "$program"
    done <<'ROWS'
2000000 1000000|place right
2000000|held/check/right_02_plateau_of_mean
2000000|held/check5/right_04_dice_segmentation
2000000|held/check/right_09_odd_batch_weighted
1000001|held/check3/right_05_gridworld
1000000|held/check2/right_02_factors
2000000|held/check6/right_05_imputation
2000000|held/check5/right_06_attention_pooling
2000000|held/check8/right_02_tabular
2000000 1000000|held/check12/right_04_signals
2000000 1000000|held/check13/right_01_pulses
2000000|place micro
2000000 1000000|jury/nets statistics
2000000 1000000|jury/loops half
2000000 1000000|jury/nets twice
1000000|place averaged
7000000 7000001|sums means
2000000 1000000|rows $few_steps
2000000 1000000|rows
2000000 1000000|rows two_groups --optimizer adam
2000000 1000000|updates
ROWS

    # A cudart inside the program is no part of it: what is said is the same as with a shared one, also where all copies are made by a
    # function of a function.
    cat >"$work/deep.h" <<'C'
#include <cuda_runtime.h>
#define COPIES(name, inner) \
    static int name(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return inner(to, from, bytes, kind); }
COPIES(copy_1, cudaMemcpy)
COPIES(copy_2, copy_1)
#define cudaMemcpy (cudaError_t)copy_2
C
    mkdir "$work/inside" "$work/shared"
    root=$here/../../..
    cc=("$build/bin/softgpu-cc" -O0 -g -D_GNU_SOURCE "-I$root" "-I$root/samples" "-I$root/interpose/include" -lcublas)
    works "compiled" "${cc[@]}" -include "$work/deep.h" -c "$root/tests/tools/check/place.cu" -o "$work/place.o"
    works "linked with a shared cudart" "${cc[@]}" "$work/place.o" -o "$work/shared/place"
    works "linked with a cudart inside" "${cc[@]}" "$work/place.o" "$build/tests/trainers/cudart.o" "$build/lib/softgpu/libsoftgpu.so" \
        -o "$work/inside/place"
    mkdir "$work/stripped" # only places have lines; the operation is the same
    strip -o "$work/stripped/place" "$work/inside/place"
    for cudart in shared inside stripped; do
        run "$ddprun" check -n 2 "$work/$cudart/place" divisor
        check "cudart $cudart: a difference" [ "$code" -eq 1 ]
        cp "$work/stdout" "$work/said.$cudart"
    done
    check "the same place with a cudart inside" diff "$work/said.shared" "$work/said.inside"
    operation() { grep -m 1 -o 'first operation that differs.*argument [0-9]*' "$work/said.$1"; }
    check "the same operation without symbols" [ "$(operation stripped)" = "$(operation shared)" ]
}
