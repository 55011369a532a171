#!/usr/bin/env bash
# ends.sh BUILD [PATTERN] - the program ends/, untouched, by a plan: however it ends, its saved weights are those of its oracle, the last
# whole round's, what its test prints is computed from them, and its exit code is the program's own, unless rank 0 has trained on alone.
# Each row is one way of training and one end; ordinarily on 3 ranks, all ends that are one word, and one in 16 of those that are two
# (TESTS_PART); with DDPRUN_SOAK=1 all, on 2 and 3, tame and unruly. Then, with each kind of calls (ends/calls.h) between the batches that
# rank 0 evaluates alone; and a few by --plan auto. PATTERN: only rows "WAY END", or "WAY evaluate NAME" of calls, that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/ends
steps=41 # no whole number of rounds
ranks=3 moods=('') soak=${DDPRUN_SOAK:-0} number=0 rows=0
[ "$soak" -eq 0 ] || { ranks='2 3' moods=('' ', unruly'); }

# code_of END: the exit code.
code_of() {
    case $1 in
    *exit) echo 3 ;;
    *exception) echo 4 ;;
    *abort) echo 134 ;;
    *signal) echo 143 ;;
    goes-on) echo 1 ;;
    *) echo 0 ;;
    esac
}
# is_chosen WAY END: whether this run has the row.
is_chosen() {
    number=$((number + 1))
    [[ $2 != *+* || "$1 $2" = 'gradients evaluate+'* ]] || [ "$pattern" != . ] || chosen $number 16
}
# figures WAY END FILE: what it has printed that is computed from weights that its oracle has, too. By state a batch that evaluates may be one of
# a round whose steps are not averaged yet; a batch that is left out is missing in the sum of its epoch.
figures() {
    local words=tested
    case "$1 $2" in
    gradients*) words='tested|evaluated' ;;
    sums*evaluate* | sums*smaller* | sums*again | sums*early* | sums*goes-on) ;;
    sums*) words='tested|epoch' ;;
    esac
    grep -E "^($words)" "$3" || :
}
# row WAY END RANKS MOOD
row() {
    local name="$1 $2, $3 ranks$4" wanted unruly=() unshared=0
    [ -z "$4" ] || unruly=(env SOFTGPU_UNRULY=7)
    wanted=$(code_of "$2")
    rows=$((rows + 1))
    rm -f weights wanted
    { "$program" "$1" "$2" --steps $steps --save wanted --oracle "$3" >figures; } 2>/dev/null # it may abort
    run "${unruly[@]}" "$ddprun" -n "$3" --device softgpu --share-gpu --timeout 60 --plan "$1.json" --summary-json summary.json \
        "$program" "$1" "$2" --steps $steps --save weights
    check "$name: exit code $wanted" test "$code" -eq "$wanted"
    [ "$2" = goes-on ] || check "$name: weights" near weights wanted 2e-5
    check "$name: figures" test "$(figures "$1" "$2" "$work/stdout")" = "$(figures "$1" "$2" figures)"
    case "$1 $2" in
    *' goes-on' | *' smaller'* | gradients' evaluate' | tail' evaluate')
        check "$name: it is said" grep -q 'Rank 0 continues alone from the last update' "$work/stderr"
        check "$name: in the summary" grep -qE '"lost_batches": ?[1-9]' summary.json
        ;;
    esac
    if [ "$2" = decay ] && [ "$1" != gradients ]; then
        check "$name: its change is undone" grep -q 'the change that decay_kernel made in the middle of a step is undone' "$work/stderr"
    fi
    [ "$2" != goes-on ] || check "$name: updates alone" grep -q 'rank 0 made [0-9]* updates alone.* is not the result of' "$work/stderr"
    # rank 0 that is alone has none that did not share
    [[ $2 != *again ]] || grep -q 'Rank 0 continues alone' "$work/stderr" || unshared=1
    check "$name: what ranks did not share" test "$(grep -c 'ranks did not share that' "$work/stderr")" -eq $unshared
    [ "$2" != evaluate ] || check "$name: one evaluation" test "$(grep -c '^evaluated' "$work/stdout")" -eq 1
}
# call_row WAY NAME RANKS: rank 0 evaluates alone, and makes these calls before each batch. What it prints is computed from the saved weights.
call_row() {
    local name="$1 evaluate $2, $3 ranks"
    rm -f weights
    run "$ddprun" -n "$3" --device softgpu --share-gpu --timeout 60 --plan "$1.json" "$program" "$1" evaluate --steps $steps --save weights --call "$2"
    succeeded "$name: exit code 0"
    check "$name: rank 0 is alone" test "$(grep -c 'Rank 0 continues alone from the last update' "$work/stderr")" -eq 1
    check "$name: the last line" grep -q 'alone it made [67] batches and 0 updates' "$work/stderr"
    check "$name: weights" near weights "wanted-$3" 2e-5
    check "$name: figures" test "$(grep '^evaluated' "$work/stdout")" = "$(grep '^evaluated' "figures-$3")"
}

# auto_row WAY END: by --plan auto, whose rehearsal comes to the end of a program that is so short. It may go on by state where the end is none
# that gradients have.
auto_row() {
    local name="$1 $2, by --plan auto" way=$1
    rm -rf weights wanted cache
    run env XDG_CACHE_HOME="$work/cache" "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto --yes --slow "$program" "$1" "$2" --steps $steps --save weights
    succeeded "$name: exit code 0"
    ! grep -qE '"by": ?"state"' cache/ddprun/plans/*.json || [ "$1" != gradients ] || way=state
    "$program" "$way" "$2" --steps $steps --save wanted --oracle 2 >figures
    check "$name: weights" near weights wanted 2e-5
    check "$name: figures of the test" test "$(grep ^tested "$work/stdout")" = "$(grep ^tested figures)"
}

watch_leftovers
cd "$work" || exit 1
for way in gradients state tail ahead sums; do
    by=state
    [ $way != gradients ] || by=gradients
    [ -n "$({ "$program"; "$program" calls | sed 's/^/gradients evaluate /'; } | grep "^$way " | grep -E "$pattern")" ] || continue
    run "$ddprun" -q --device softgpu scout --by $by --prove --json $way.json "$program" $way plain --steps 40
    check "$way: a plan" test "$code" -eq 0
done
while read -r way end; do
    is_chosen "$way" "$end" || continue
    for n in $ranks; do
        for mood in "${moods[@]}"; do
            row "$way" "$end" "$n" "$mood"
        done
    done
done < <("$program" | grep -E "$pattern")
while read -r way evaluate name; do
    for n in $ranks; do
        "$program" "$way" "$evaluate" --steps $steps --save "wanted-$n" --oracle "$n" >"figures-$n"
        call_row "$way" "$name" "$n"
    done
done < <("$program" calls | sed 's/^/gradients evaluate /' | grep -E "$pattern")
while read -r way end; do
    auto_row "$way" "$end"
done < <(printf '%s\n' 'ahead test' 'ahead test-apart' 'state test' 'gradients evaluate+free' 'sums test' | grep -E "$pattern")
echo "$rows rows of ends"
if [ -e gradients.json ] && grep -qE "$pattern" <<<'gradients goes-on'; then
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan gradients.json "$program" gradients goes-on --steps 2200
    check "1,000 updates alone: exit code 1" test "$code" -eq 1
    check "1,000 updates alone: what to do" grep -q 'rank 0 has made 1000 updates alone: end the program where' "$work/stderr"
fi
check "leaves no process" within 5 none_left
finish
