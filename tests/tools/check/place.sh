#!/usr/bin/env bash
# place.sh BUILD - the first sentence of `ddprun check` is the operation in which N ranks and one process first part: kernel or copy, its
# line, the operand, and the values. In right programs a look at a step names no operation.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
place=$build/tests/tools/check/place
rows_program=$rows

# MODE | exit code | cause | what the first sentence says, an extended regular expression
rows=(
    'divisor | 1 | direction | `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*is 12 on rank 0, 15 on rank 1 and 24 in one process'
    'begin | 1 | start | `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: before DDP_STEP it writes other values than one process to the memory that argument 1 .*points to'
    'rate | 1 | update | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 3 .*is 0.2 on all ranks and 0.1 in one process'
    'centre | 3 | batch_dependent | `centre` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: the ranks. rows in the memory that argument 1 .*points to differ from one process.s'
    'noise | 3 | batch_dependent | `noise` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*is 0 on rank 0, 1 on rank 1 and 0 in one process'
    'items | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: of the 1536 bytes that one process copies here, rank 1 copies 768 from byte 0 on, but its share begins at byte 768'
    'resident | 1 | direction | `residuals` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: all ranks compute the first items of the batch .*; argument [0-9] .*points to the same values on all ranks'
    'unmoved | 3 | batch_dependent | `residuals` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: .*; argument 3 \(`y`\) points to the same values on all ranks: if it holds the batch, add `first`'
    'own | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: a rank copies other values than one process to the memory of argument 1 \(`all`\)'
    'skip | 1 | update | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: between two DDP_STEPs rank 0 makes it [0-9] times?, and one process [0-9]'
    'order | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: a rank copies other items than its share of the batch; one process copies these items elsewhere in the batch, or in another step'
    'whole | 1 | scale | `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is probably the first operation that differs: argument 5 .*is 24 on each rank and in one process, .*: 24 items are the whole batch'
    'decay | 1 | direction | `decay` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: each rank adds the same term to its gradient as one process does'
    'count | 3 | batch_dependent | `divide` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*points to a value that `positives` \(place.cu:[0-9]+ from place.cu:[0-9]+\) computes from the rank.s share alone'
    'symbol | 1 | data | `cudaMemcpyToSymbol` \(place.cu:[0-9]+\) is the first operation that differs: a rank copies other values than one process'
    'clear | 1 | update | `item` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*of its first call in the step is 0 on rank 0, 1 on rank 1 and 0 in one process'
    'wide | 1 | tensor | averaged gradient 1 of 1, .* of float64, and no parameter has this type'
    'buffer | 1 | tensor | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*points to memory that is not annotated.*buffer 1 of 1, `buffer`'
    'read 0.5 | 1 | direction tensor update | `residuals` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*points to a buffer \(DDP_BUFFER\) that differs from one process.s'
    'buffer 0.003 | 1 | tensor | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*points to memory that is not annotated.*buffer 1 of 1, `buffer`'
    'columns | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: of the 24 items that one process copies here, rank 1 copies 12 from item 0 on, but its share begins at item 12'
    'columns_order | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: a rank copies other items than its share of the batch'
    'passes | 1 | data | `cudaMemcpy` \(place.cu:[0-9]+\) is the first operation that differs: of the 1536 bytes that one process copies here, rank 1 copies 768 from byte 0 on'
    'width | 1 | scale | `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is probably the first operation that differs: argument 5 .*is 24 on each rank and in one process'
    'forgotten | 1 | unannotated | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*, 16 elements, written by `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\), has no DDP_GRADIENT and feeds a parameter: parameter 2, `buffer`'
    'grid | 1 | update | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: its grid has 1 blocks on rank 0 and 2 in one process'
    'early | 1 | update | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: it updates a parameter, and argument 2 .*points to a gradient that DDP_STEP has not averaged since `gradient` '
    'late | 1 | update | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: it updates a parameter, and argument 2 .*points to a gradient that DDP_STEP has not averaged since `add` '
    'uneven | 3 | indivisible | the 23 items do not divide .*`gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*is 12 on rank 0, 11 on rank 1 and 23 in one process'
    'unit | 1 | update | `unit_length` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: it reads parameters that the rank.s own update has changed'
    'part | 1 | update | `sgd` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: the ranks. changes add up'
    'forgotten_sum means | 1 | reduction | `move_centre` \(sums.cu:[0-9]+ from sums.cu:[0-9]+\) is the first operation that differs: argument 2 .*points to a value that `add_up` .* computes from the rank.s share alone'
    'mean_of_sums means | 1 | reduction | `DDP_REDUCE` \(sums.cu:[0-9]+\) is the first operation that differs: the ranks pass parts of one process.s `own.sums` to it, .*on all ranks and [0-9.e+-]* in one process'
    'late means | 1 | reduction | `add_up` \(sums.cu:[0-9]+ .*argument 4 .*is 0 on rank 0, 1 on rank 1 and 0 in one process'
    'micro_divisor | 1 | direction | `gradient` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*is 12 on rank 0, 15 on rank 1 and 24 in one process'
    'valid | 1 | direction | `divide` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 2 .*points to a value that `positives` .* computes from the rank.s share alone \(element 0: 2 on rank 0, 7 on rank 1 and 9 in one process\); with this number as weight'
    'twice | 3 | batch_dependent | `fetch` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 5 .*is 0 on rank 0, 12 on rank 1 and 0 in one process'
    'teacher | 1 | unannotated | `follow` \(place.cu:[0-9]+ from place.cu:[0-9]+\) is the first operation that differs: argument 1 .*points to memory that is not annotated, and there it writes other values.*`residuals` \(place.cu:[0-9]+ from place.cu:[0-9]+\) reads it by argument 5'
)
for row in "${rows[@]}"; do
    in_turn 5 || continue
    IFS='|' read -r mode expected cause pattern <<<"$row"
    mode=$(trim "$mode")
    read -ra words <<<"$mode"
    program=$([[ $mode == *means ]] && echo "$sums" || echo "$place")
    checked 2 "" "$program" "${words[@]}"
    why=$(why_not "$(trim "$expected")" "$(trim "$cause")" -)
    [ -n "$why" ] || grep -Eq "^(different|not comparable): (in|before) step [0-9]+ $(trim "$pattern")" "$work/stdout" ||
        why=$(grep -E '^(different|not comparable): ' "$work/stdout")
    if [ -z "$why" ]; then ok "$mode"; else not_ok "$mode" "$why"; fi
done

# A newcomer's trainer. Adam's first step is as long whatever the gradient is, so the ranks first differ by less than the tolerance.
held=$(cd "$(dirname "$0")/../../held/check4" && pwd)
export NVCC_APPEND_FLAGS='-Xcompiler -O0' # optimising takes longer than the runs
while IFS='|' read -r name place_pattern advice && [ "$sanitized" -eq 0 ]; do
    "$build/bin/softgpu-cc" -O2 -g -I"$held/../../../interpose/include" "$held/$name.cu" -o "$work/$name" -lcublas 2>"$work/stderr"
    checked 2 "" "$work/$name"
    check "$name: the place" grep -Eq "^different: in step 2 .sum_squares. .*$place_pattern" "$work/stdout"
    check "$name: what to do" grep -Eq "^what to do: .*$advice" "$work/stdout"
done <<'ROWS'
wrong_01_bias_gradient|argument 1 .*points to memory that is not annotated|annotate it with DDP_GRADIENT
wrong_02_biases|unannotated memory 3, which .adam. writes .argument 1.|.adam. updates this memory as it updates annotated parameters: annotate all of it with DDP_PARAMETER, and its gradient
ROWS

# An arena whose gradient is annotated in part, cuBLAS's alpha, a divisor of the whole batch, and a mean of the share beside one divided by it.
while IFS='|' read -r name place_pattern && [ "$sanitized" -eq 0 ]; do
    "$build/bin/softgpu-cc" -O2 -g -I"$held/../../../interpose/include" "$held/../$name.cu" -o "$work/held" -lcublas 2>"$work/stderr"
    checked 2 "" "$work/held"
    check "$name: the place" grep -Eq "^(different|not comparable): (in|before) step [12] $place_pattern" "$work/stdout"
done <<'ROWS'
check9/wrong_11_quarry|`nesterov` .*: it changes 1631 elements of the parameter; of the gradient .*DDP_GRADIENT annotates only 1540
check9/wrong_12_harbour|`output_gradient` .*argument 6 .*is 1/214 on each rank and in one process, .*: 214 is of the whole batch
check10/wrong_02_autoenc|`hidden_delta` .*argument 3 .*points to a value that `column_mean` .*computes from the rank's share alone
check10/wrong_07_bigram|`lr` \(wrong_07_bigram.cu:117\), computed from `seen` \(wrong_07_bigram.cu:116\), which is computed from `n`, is 0.25 on all ranks and 0.5 in one process, and is passed to `apply`
check10/wrong_03_spirals|`k_add_square` .*argument 1 \(`all\[p\]->g`\) points to a gradient that DDP_STEP has not averaged .*; then `k_climb` .* updates a parameter by it
check11/wrong_01_kestrel|`cublasSgemm` .*argument 13 \(`c: sim`\) .*elements that it changes: 256 on all ranks and 1024 in one process
check11/wrong_03_saffron|`cudaMemcpyAsync` .*argument 1 \(`image: x`\) are not its share .*; the host sets `image_` at wrong_03_saffron.cu:84
check11/wrong_10_cobalt|`cudaMemcpy` .*argument 2 \(`g`\) points to a gradient that DDP_STEP has not averaged .*; then `cudaMemcpy` .*copies a parameter
check11/wrong_14_pumice|`follow` .*argument 1 \(`codebook`\) points to memory that is not annotated, .*; its argument 4 \(`chosen`\) points to values of the rank's share alone .*; in step 2 `quantise`
check12/wrong_02_moons|`make_mask` .*all ranks compute the first items of the batch .*argument 1 \(`mask`\) .* on rank 1 and [0-9.]* in one process
check12/wrong_04_skipgram|`rate` \(wrong_04_skipgram.cu:128\), computed from `words_seen` .*, which is computed from `count`, is 5.95 on all ranks and 5.9 in one process
check12/wrong_07_normnet|`back_norm` .*argument 6 \(`dgb.p`\) points to a gradient of the rank's share alone, from which it computes rows
check10/wrong_04_softmax|`minus` \(wrong_04_softmax.cu:99\), computed from `eta` \(wrong_04_softmax.cu:98\), is -0.92[0-9]* on all ranks and -1.5 in one process, and is passed to `cublasSaxpy` .*, after the host has read .* at .*wrong_04_softmax.cu:94
ROWS

# Sums of DDP_REDUCE that ranks add in another order move the gradients as far as this one differs: no kernel is named for it.
if [ "$sanitized" -eq 0 ]; then
    "$build/bin/softgpu-cc" -O2 -g -I"$held/../../../interpose/include" "$held/../check3/right_03_survey.cu" -o "$work/survey" 2>"$work/stderr"
    checked 2 "" "$work/survey"
    check "rounding of sums over ranks: a reason" grep -Eq '^not comparable: gradient 1 of 1, .*runs of one process differ as much' "$work/stdout"
    # Each rank's momentum is its own where parameters are averaged; nothing but the update gets it, and no parameter differs.
    "$build/bin/softgpu-cc" -O2 -g -I"$held/../../../interpose/include" "$held/../check7/right_03_tones.cu" -o "$work/tones" 2>"$work/stderr"
    checked 2 "" "$work/tones"
    report "momentum of each rank's own is no difference" "$(why_not 0 null -)"
    check "the table says whose it is" grep -q "the rank's own$" "$work/stdout"
fi
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

# quiet NAME PROGRAM...: a look at a step before the gradient, and at the update after it, names no operation.
quiet() {
    local name=$1 tensor
    in_turn 5 || return 0
    for tensor in ${tensors:-2000000 1000000}; do
        run env "_DDPRUN_CHECK_LOOK=$tensor" "$ddprun" check -n 2 --steps 6 "${@:2}"
        check "$name, look at $tensor: equal" [ "$code" -eq 0 ]
        check "$name, look at $tensor: no place" bash -c "! grep 'a place in an equal program' '$work/stderr'"
    done
}
quiet "right" "$place" right
# Doubles, weighted shares, a group whose backward comes after the first DDP_STEP, a factor that the update takes back; what rank 0 alone
# adds for all, or computes besides; one memory for a mean and a count; micro-batches of shares that are not equal.
while read -r name tensors && [ "$sanitized" -eq 0 ]; do
    "$build/bin/softgpu-cc" -O2 -g -I"$held/../../../interpose/include" "$held/../$name.cu" -o "$work/quiet" -lcublas 2>"$work/stderr"
    tensors=$tensors quiet "$name" "$work/quiet"
done <<'ROWS'
check/right_02_plateau_of_mean 2000000
check5/right_04_dice_segmentation 2000000
check/right_09_odd_batch_weighted 2000000
check3/right_05_gridworld 1000001
check2/right_02_factors 1000000
check6/right_05_imputation 2000000
check5/right_06_attention_pooling 2000000
check8/right_02_tabular 2000000
check12/right_04_signals
check13/right_01_pulses
ROWS
tensors=2000000 quiet "micro" "$place" micro
# Values that forward overwrites; 16-bit gradients that an update widens over the rank's own; two passes that add to a gradient.
for program in "nets statistics" "loops half" "nets twice"; do
    quiet "$program" "$build/tests/tools/check/jury/${program% *}" "${program#* }"
done
tensors=1000000 quiet "averaged" "$place" averaged
tensors='7000000 7000001' quiet "rounds" "$sums" means
quiet "conv" "$conv" "${conv_options[@]}"
quiet "rows" "$rows_program"
quiet "rows, Adam, groups" "$rows_program" two_groups --optimizer adam
quiet "updates" "$updates"

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
root=$held/../../..
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
finish
