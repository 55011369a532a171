#!/usr/bin/env bash
# carries.sh BUILD [PATTERN] - the program carries/, which carries state from batch to batch, untouched, by plans in which each rank has its own
# (--per-rank): scout asks for that memory, and two ranks train to the weights, and print the figures, of the oracle, by gradients and by state.
# Ordinarily one of five rows runs (in_turn); with DDPRUN_SOAK=1 all. PATTERN: only ways that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/carries
steps=61 # no whole number of rounds
watch_leftovers
cd "$work" || exit 1

# carried BY WAY: the memory that scout asks for, all of it.
carried() {
    local memory=() asked
    for _ in 1 2 3; do
        run "$ddprun" -q --device softgpu scout --by "$1" --prove --json plan.json ${memory:+--per-rank "$(IFS=, && echo "${memory[*]}")"} "$program" "$2" --steps $steps
        asked=$(grep -oE -m1 -- '--per-rank a[0-9]+' "$work/stderr" | head -n 1)
        [ -n "$asked" ] || break
        memory+=("${asked#--per-rank }")
    done
}
# row BY ORACLE WAY
row() {
    local name="$3, by $1"
    rm -f plan.json weights
    carried "$1" "$3"
    check "$name: there is a plan" test "$code" -eq 0 -a -s plan.json
    check "$name: each rank has its own" grep -q '"role": *"per rank"' plan.json
    "$program" "$3" --steps $steps "$2" 2 --save wanted >wanted.out
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan plan.json "$program" "$3" --steps $steps --save weights
    check "$name: exit code 0, not $code" test "$code" -eq 0
    sed -i '/^hidden/d' wanted weights # the newest is saved
    check "$name: the oracle's weights" near weights wanted 2e-5
    check "$name: and figures" near "$work/stdout" wanted.out 2e-4
}

while read -r way; do
    if [ "$way" != two ] && in_turn 5; then # two are no plan by gradients
        row gradients --oracle-gradients "$way"
    fi
    ! in_turn 5 || row state --oracle "$way"
done < <("$program" | grep -E "$pattern")
check "leaves no process" within 5 none_left
finish
