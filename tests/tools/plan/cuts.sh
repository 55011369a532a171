#!/usr/bin/env bash
# cuts.sh BUILD [PATTERN] - the program cuts/, untouched, by `ddprun --plan auto` on 2 and 3 ranks: each way of training ends at the weights of its oracle, or
# is refused by a true sentence. The oracle has a cut of its own, and knows nothing of plans. A table is printed. PATTERN: only ways that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/cuts
steps=481 # no whole number of rounds
same_data='all ranks (had the same gradients|made the same change of state).*Usual cause: each batch is the whole data'

# refusal WAY: the sentence by which it must be refused; "": it must run.
refusal() {
    case $1 in
    writes-late) echo 'was written after the last write of state that the plan has for a step, and ranks have lost that change' ;;
    whole) echo "$same_data" ;;
    whole-shuffled) echo 'had the same gradients, but for the rounding of sums.*Usual cause: each batch is the whole data' ;;
    esac
}
# row WAY RANKS
row() {
    local name="$1, $2 ranks" why outcome='by the oracle'
    why=$(refusal "$1")
    rm -f weights wanted
    "$program" "$1" --steps $steps --save wanted --oracle "$2" >wanted.out
    run "$ddprun" -n "$2" --device softgpu --share-gpu --timeout 120 --plan auto --yes --slow "$program" "$1" --steps $steps --save weights
    if [ -n "$why" ]; then
        check "$name: is refused" test "$code" -eq 1
        check "$name: says why" grep -Eq "$why" "$work/stderr"
        outcome=refused
    else
        check "$name: exit code 0, not $code" test "$code" -eq 0
        check "$name: the oracle's weights" near weights wanted 2e-5
        check "$name: and figures" near "$work/stdout" wanted.out 2e-5
    fi
    echo "| $1 | $2 | $outcome |" >>table
}

watch_leftovers
cd "$work" || exit 1
"$program" | grep -E "$pattern" >ways
while read -r way; do
    row "$way" 2
    row "$way" 3
done <ways
echo '| way | ranks | wanted |'
echo '| --- | --- | --- |'
cat table
check "there are rows" test -s table
check "leaves no process" within 5 none_left
finish
