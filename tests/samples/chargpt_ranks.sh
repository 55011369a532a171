#!/usr/bin/env bash
# chargpt_ranks.sh BUILD - a GPT whose gradients are parts of one flat buffer, cleared by one memset: ranks train what one process
# trains. With one rank bitwise the bare program; with several bitwise the same on all ranks, and after 10 steps within 1e-5 of serial.
source "$(dirname "$0")/../end_to_end/lib.sh"
text=${data%/*}/shakespeare.txt
chargpt=$build/samples/chargpt
options=(--data "$text" --layers 2 --width 64 --heads 4 --context 32 --batch 12 --eval-every 5 --eval-batches 2 --steps 10)

# equal NAME RANKS PROGRAM-OPTIONS...: against the serial run of the plain program with the same options.
equal() {
    local name=$1 ranks=$2
    shift 2
    rm -f "$work"/rank-*
    works "$name: ends well" "$ddprun" -n "$ranks" --check-every 1 --bucket-mb 0.1 "$chargpt" "${options[@]}" "$@" --save "$work/rank-%d"
    if [ "$ranks" -eq 1 ]; then
        check "$name: bitwise the bare program" cmp "$work/rank-0" "$work/serial"
        check "$name: prints what the bare program prints" cmp "$work/stdout" "$work/serial.out"
        return
    fi
    same_on_all_ranks "$name" "$ranks"
    check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
    overlapped "$name"
    check "$name: several buckets" grep -Eq '[^0-9]([3-9]|[1-9][0-9]) buckets' "$work/stderr"
}

# serial OPTIONS...: what the others are compared with.
serial() {
    works "serial $*" "${chargpt}_plain" "${options[@]}" "$@" --save "$work/serial"
    cp "$work/stdout" "$work/serial.out"
}

serial
equal "1 rank" 1
for ranks in 2 3; do
    equal "$ranks ranks" "$ranks"
done
check "losses are means over the ranks" bash -c "paste -d' ' '$work/stdout' '$work/serial.out' |
    awk '{ if (\$4 - \$10 > 2e-5 || \$10 - \$4 > 2e-5 || \$2 != \$8) exit 1 } END { exit NR != 2 }'"

# Whatever may be delayed is delayed: a missing event would show.
for seed in 1 2; do
    export SOFTGPU_CHAOS=$seed
    equal "2 ranks in disorder $seed" 2
    unset SOFTGPU_CHAOS
done

serial --accumulate 2
equal "1 rank, 2 passes a step" 1 --accumulate 2
equal "2 ranks, 2 passes a step" 2 --accumulate 2

# A checkpoint of two ranks, and two ranks that continue from it.
works "2 ranks write a checkpoint" "$ddprun" -n 2 "$chargpt" "${options[@]}" --accumulate 2 --steps 6 --checkpoint "$work/half"
equal "2 ranks, from a checkpoint" 2 --accumulate 2 --resume "$work/half" --sample 20

# Whole batches in turns: ranks against one process that plays the turns of all.
turns=("$chargpt"_turns "${options[@]}" --accumulate 2)
works "turns: check compares 2 ranks with one process" "$ddprun" -q --device softgpu check -n 2 "${turns[@]}"
check "turns: equal" grep -q '^equal: 2 ranks that take turns compute what one process with all turns computes' "$work/stdout"
rm -f "$work"/rank-*
works "turns: 3 ranks end well" "$ddprun" -n 3 --bucket-mb 0.1 "${turns[@]}" --save "$work/rank-%d"
same_on_all_ranks "turns" 3
check "turns: 10 batches are 4 rounds of 3 ranks" grep -q '3 ranks, 4 steps (each a round of 3 of 10 batches in turns' "$work/stderr"

limit=60 run "$ddprun" -n 3 "$chargpt" "${options[@]}" --batch 2
check "more ranks than sequences are refused" grep -q 'chargpt: --batch 2: there are 3 ranks' "$work/stderr"
check "with an exit code" [ "$code" -eq 2 ]
finish
