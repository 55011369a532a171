#!/usr/bin/env bash
# plan_state.sh BUILD - a plan by state: ranks have, bit for bit, the parameters and the output of one process that plays all turns, also where the last round
# has fewer steps, and where a validation between steps ends a round early; with SGD they have those of the annotated program with N times the batch. A player
# that leaves a change out, does not put back what stays, or does not scale a round of fewer steps is seen; so is a program whose ranks all had the same batch.
# Plans are made by gradients, and rewritten. With DDPRUN_SOAK=1 on more ranks.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
install_broken
head -n 1440 "$data" >"$work/digits.csv" # 1152 of them to train with: whole batches of 24 on 2, 3, 4 and 8 ranks
digits=("$build/samples/digits_plain" --data "$work/digits.csv" --batch 24 --quiet)
chargpt=("$build/samples/chargpt_plain" --data "$(dirname "$data")/shakespeare.txt" --layers 2 --width 32 --heads 2 --context 16 --batch 4 --eval-every 25)
cd "$work" || exit 1

# rewritten NAME: NAME.made, by gradients, becomes NAME.json, by state.
rewritten() {
    local count
    count=$(grep -o '"made_by"' "$1.made" | wc -l)
    sed -E 's/"made_by":( ?)"last"/"made_by":\1"turn"/g; s/"role":( ?)"(parameter|state)"/"role":\1"state by change"/g
        s/"role":( ?)"(gradient|compared)"/"role":\1"unread"/g; s/"by":( ?)"gradients"/"by":\1"state"/
        s/"reduce_before":( ?)[0-9]+/"reduce_before":\1'"$count"',"state_before":\1'"$count"'/' "$1.made" >"$1.json"
    check "$1: there is a plan" test "$count" -gt 0
}
# planned NAME PROGRAM...
planned() {
    run "$ddprun" -q --device softgpu scout --prove --json "$1.made" "${@:2}" --steps 40
    rewritten "$1"
}

# by_state RANKS PLAN PROGRAM...: on ranks, into turns.par and turns.out; of_one: the same by one process, into one.par and one.out.
by_state() {
    rm -f turns.par
    run "${installed:-$ddprun}" -n "$1" --device softgpu --share-gpu --timeout 60 --plan "$2.json" --unproved "${@:3}" --save turns.par
    cp "$work/stdout" turns.out
}
of_one() {
    rm -f one.par
    run env _DDPRUN_CHECK_RUN= _DDPRUN_PLAN_TURNS="$1" "${installed:-$ddprun}" -n 1 --device softgpu --timeout 60 --plan "$2.json" --unproved "${@:3}" --save one.par
    cp "$work/stdout" one.out
}

# same NAME: the last two runs.
same() {
    check "$1: one process ends well" test "$code" -eq 0
    check "$1: ranks have the bits of one process" cmp turns.par one.par
}

planned digits "${digits[@]}"
ranks=(2 3)
[ "${DDPRUN_SOAK:-0}" -ne 1 ] || ranks=(2 3 4 8)
for n in "${ranks[@]}"; do
    by_state "$n" digits "${digits[@]}" --steps $((20 * n))
    check "digits on $n ranks: ends well" test "$code" -eq 0
    check "digits on $n ranks: all have the same" grep -q 'bitwise identical' "$work/stderr"
    of_one "$n" digits "${digits[@]}" --steps $((20 * n))
    same "digits on $n ranks"
    run "$ddprun" -n "$n" --device softgpu --share-gpu "$build/samples/digits" --data digits.csv --batch $((24 * n)) --steps 20 --quiet --save annotated.par
    check "digits on $n ranks: the annotated program's" "$build/samples/compare" --quiet turns.par annotated.par 2e-6
    by_state "$n" digits "${digits[@]}" --steps $((20 * n + 1))
    check "digits on $n ranks, and a step: ends well" test "$code" -eq 0
    check "digits on $n ranks, and a step: says so" grep -q 'plan: 1 of 21 rounds had fewer steps' "$work/stderr"
    of_one "$n" digits "${digits[@]}" --steps $((20 * n + 1))
    same "digits on $n ranks, and a step"
done

# Momentum as what all ranks' changes are added to, gradients as what the last step has left: all ranks have the same of both.
sed -E 's/"role":( ?)"state"/"role":\1"sum"/g; s/"role":( ?)"gradient"/"role":\1"last"/g' digits.made >rest.made
rewritten rest
by_state 3 rest "${digits[@]}" --steps 31
check "sums and latest bytes: end well" test "$code" -eq 0
check "sums and latest bytes: all have the same" grep -q 'bitwise identical' "$work/stderr"
of_one 3 rest "${digits[@]}" --steps 31
same "sums and latest bytes"

# AdamW with clipping; each validation ends a round.
planned chargpt "${chargpt[@]}"
by_state 3 chargpt "${chargpt[@]}" --steps 61
check "chargpt: rounds end for validations" grep -q 'plan: 3 of 22 rounds had fewer steps' "$work/stderr"
of_one 3 chargpt "${chargpt[@]}" --steps 61
same chargpt
check "chargpt: validation losses are those of one process" diff <(grep -o 'val.*' turns.out) <(grep -o 'val.*' one.out)

# broken NAME MUTANT STEPS: a broken player's ranks come to other bits than one process.
broken() {
    installed=$broken/bin/ddprun DDPRUN_MUTANT=$2 by_state 2 digits "${digits[@]}" --steps "$3"
    of_one 2 digits "${digits[@]}" --steps "$3"
    check "$1: is $4" test "$(cmp -s turns.par one.par; echo $?)" "$5" 0
}
broken "a player that is whole" none 9 right -eq
broken "a change that is left out" STATE_NOT_ADDED 8 seen -ne
broken "a round of fewer steps as one of all" STATE_NOT_SCALED 9 seen -ne
by_state 2 digits "${digits[@]}" --steps 8
installed=$broken/bin/ddprun DDPRUN_MUTANT=STATE_NOT_PUT_BACK of_one 2 digits "${digits[@]}" --steps 8
check "turns that begin with what the one before has left: are seen" grep -q 'was written after the last write of state that the plan has' "$work/stderr"

# All records are one: each rank computes what the others do.
awk 'NR == 1 { for (i = 0; i < 1440; ++i) print }' digits.csv >same.csv
mv same.csv digits.csv
by_state 2 digits "${digits[@]}" --steps 12
check "one batch for all ranks: ends the job" test "$code" -eq 1
check "one batch for all ranks: the reason is printed" grep -q 'in 3 rounds all ranks made the same change of state. Usual cause: each batch is the whole data' "$work/stderr"
check "no process is left" within 5 none_left
finish
