#!/usr/bin/env bash
# types.sh BUILD - what `ddprun scout` finds in programs whose tensors are small, of all types, or say nothing of their type (types.cu): each parameter and
# gradient has its type and all of its elements, or the program is refused with the reason; a table of indices leads nowhere; what cuBLAS gives the host is a
# reader. Each rule is broken once, and seen. With DDPRUN_SOAK=1 1 to 32 rows, ten seeds each.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
install_broken
if [ "${DDPRUN_SOAK:-0}" = 1 ]; then
    rows=({1..32})
    seeds=({1..10})
else
    rows=(1 2 7)
    seeds=(1 2)
fi

# found TYPE ROWS READER: the last run has found parameters and gradients of TYPE, 8 * ROWS and ROWS elements of each, and READER reads the gradients first.
found() {
    local role
    [ "$code" -eq 0 ] && grep -q "\"text\":\"$3\"" "$work/plan.json" || return 1
    for role in parameter gradient; do
        [ "$(awk -v role=$role '$1 == role { print $2, $3 }' "$work/stdout" | sort)" = "$(printf '%s\n' "$1 $((8 * $2))" "$1 $2" | sort)" ] || return 1
    done
}

# scouts TYPE ROWS HABIT [SEED]: runs it. With `mutant`, broken so.
scouts() {
    run env DDPRUN_MUTANT="${mutant:-none}" "$broken/bin/ddprun" -q --device softgpu scout -v --json "$work/plan.json" "$build/tests/tools/scout/types" "$@"
}

# refused NAME PATTERN TYPE ROWS HABIT
refused() {
    scouts "${@:3}"
    failed_with "$1" 1 "$2"
    check "$1: the plan has the reason" grep -Eq "\"reason\":\".*$2" "$work/plan.json"
}

for n in "${rows[@]}"; do
    for seed in "${seeds[@]}"; do
        for type in float double half bfloat16; do
            scouts $type "$n" plain "$seed"
            case $type in float) says=float32 ;; double) says=float64 ;; half) says=float16 ;; *) says=bfloat16 ;; esac
            [ "$type, $n, $seed" != "bfloat16, 21, 5" ] || { failed_with "a number too large for its updates" 1 'updates below half a unit in the last place of bfloat16'; continue; }
            check "$type, $n rows, seed $seed" found $says "$n" sgd
        done
    done
    scouts half "$n" scaled
    check "half, $n rows, scaled" found float16 "$n" sgd
    for habit in c-half:sgd blas:cublasSaxpy_v2 shape:sgd shuffled:sgd tables:sgd sealed:sgd answer:cublasSnrm2_v2 legacy:cublasSnrm2; do
        scouts float "$n" "${habit%:*}"
        check "${habit%:*}, $n rows" found float32 "$n" "${habit#*:}"
        left_out=$(grep -c '^note: by_tables failed with CUDA_ERROR_ILLEGAL_ADDRESS when it was repeated with other integers: the last of 2 runs leaves that out' "$work/stdout")
        check "${habit%:*}, $n rows: what ended a run is named" test "$left_out" -eq "$([ "${habit%:*}" = sealed ] && echo 1 || echo 0)"
    done
done
for habit in own fused; do
    for workers in 1 4; do
        run env SOFTGPU_WORKERS=$workers "$ddprun" -q --device softgpu scout -v "$build/tests/tools/scout/border" $habit
        check "$habit, $workers workers: an element of which half is seen to change is one" grep -Eq '^ *parameter +float64 +640 +5120 ' "$work/stdout"
    done
done
refused "nothing says the type" "the type of parameter .* is not known" float 1 c
refused "a pointer to anything says nothing" "the type of parameter .* is not known" float 1 words
refused "two types" "holds float32 for one operation and float64 for another" float 4 two
for seed in 1 2 3 4; do
    refused "updates that 16 bits cannot hold, seed $seed" "where parameter .* updates below half a unit in the last place of float16 change nothing" half 20 small "$seed"
done
scouts float 20 c
check "the bits of many numbers are a guess" found "float32?" 20 sgd_c
check "the guess is in the plan" test "$(grep -c '"guessed":true' "$work/plan.json")" -eq 4
check "the guess is in the lines" test "$(grep -c '^+ *DDP_[PG].* /\* the type is a guess \*/$' "$work/stdout")" -eq 4

# misses MUTANT TYPE ROWS READER HABIT: not found so.
misses() {
    mutant=$1 scouts "${2%:*}" "$3" "$5"
    check "$1 is seen" test "$(found "${2#*:}" "$3" "$4" && echo found)" = ""
}
misses SCOUT_NAMES_UNREAD float:float32 2 sgd plain
misses SCOUT_CALLS_UNREAD float:float32 2 cublasSaxpy_v2 blas
misses SCOUT_ANSWERS_UNSEEN float:float32 5 cublasSnrm2_v2 answer
misses SCOUT_TAIL_UNSEEN half:float16 5 sgd plain
finish
