#!/usr/bin/env bash
# ends.sh BUILD [PATTERN] - the program ends/, untouched, by a plan: however it ends, its saved weights are those of its oracle, the last
# whole round's, and its exit code is the program's own, unless rank 0 has trained on alone. Each row is one way of training and one end;
# ordinarily on 3 ranks, with DDPRUN_SOAK=1 on 2 and 3, tame and unruly. PATTERN: only rows "WAY END" that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/ends
steps=41 # no whole number of rounds
ranks=3 moods=('')
[ "${DDPRUN_SOAK:-0}" -eq 0 ] || { ranks='2 3' moods=('' ', unruly'); }

# near FILE OF: whether all weights are those of the other file, but for rounding.
near() {
    paste "$1" "$2" | awk '{ d = $2 - $4; size = $4 < 0 ? -$4 : $4; if (d < 0) d = -d; if (d > 2e-5 * (size + 0.01)) exit 1 } END { exit NR != 64 }'
}
# code_of END: the exit code.
code_of() {
    case $1 in
    exit) echo 3 ;;
    exception) echo 4 ;;
    abort) echo 134 ;;
    signal) echo 143 ;;
    goes-on) echo 1 ;;
    *) echo 0 ;;
    esac
}
# row WAY END RANKS MOOD
row() {
    local name="$1 $2, $3 ranks$4" wanted unruly=()
    [ -z "$4" ] || unruly=(env SOFTGPU_UNRULY=7)
    wanted=$(code_of "$2")
    rm -f weights wanted
    { "$program" "$1" "$2" --steps $steps --save wanted --oracle "$3" >/dev/null; } 2>/dev/null # it may abort
    run "${unruly[@]}" "$ddprun" -n "$3" --device softgpu --share-gpu --timeout 60 --plan "$1.json" --summary-json summary.json \
        "$program" "$1" "$2" --steps $steps --save weights
    check "$name: exit code $wanted" test "$code" -eq "$wanted"
    [ "$2" = goes-on ] || check "$name: weights" near weights wanted
    case "$1 $2" in
    *' goes-on' | *' smaller' | gradients' evaluate' | tail' evaluate')
        check "$name: it is said" grep -q 'Rank 0 continues alone from the last update' "$work/stderr"
        check "$name: in the summary" grep -qE '"lost_batches": ?[1-9]' summary.json
        ;;
    esac
    [ "$2" != goes-on ] || check "$name: updates alone" grep -q 'rank 0 made [0-9]* updates alone.* is not the result of' "$work/stderr"
    check "$name: what ranks did not share" test "$(grep -c 'ranks did not share that' "$work/stderr")" -eq "$([ "$2" != again ]; echo $?)"
    [ "$2" != evaluate ] || check "$name: figures" test "$(grep -c '^evaluated' "$work/stdout")" -eq 1
}

watch_leftovers
cd "$work" || exit 1
for way in gradients state tail; do
    by=state
    [ $way != gradients ] || by=gradients
    [ -n "$("$program" | grep "^$way " | grep -E "$pattern")" ] || continue
    run "$ddprun" -q --device softgpu scout --by $by --prove --json $way.json "$program" $way plain --steps 40
    check "$way: a plan" test "$code" -eq 0
done
while read -r way end; do
    for n in $ranks; do
        for mood in "${moods[@]}"; do
            row "$way" "$end" "$n" "$mood"
        done
    done
done < <("$program" | grep -E "$pattern")
if [ -e gradients.json ] && grep -qE "$pattern" <<<'gradients goes-on'; then
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan gradients.json "$program" gradients goes-on --steps 2200
    check "1,000 updates alone: exit code 1" test "$code" -eq 1
    check "1,000 updates alone: what to do" grep -q 'rank 0 has made 1000 updates alone: end the program where' "$work/stderr"
fi
check "leaves no process" within 5 none_left
finish
