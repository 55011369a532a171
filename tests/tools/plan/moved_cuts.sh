#!/usr/bin/env bash
# moved_cuts.sh BUILD [PATTERN] - wrong cuts: of programs of cuts/ the plan by state is changed as cuts/move_cut.h says: its period begins later, state is put
# back elsewhere, an operation is left out, or stands there twice, a read counts as a log, all ranks make an operation. The proofs refuse each plan by which two
# ranks train to other weights than the oracle's. How many were accepted of those that train alike is printed. Ordinarily a few plans are changed; with
# DDPRUN_SOAK=1 those of all ways, in each place. PATTERN: only ways that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/cuts
steps=121
ways='^(units|layers|predicts)$'
[ "${DDPRUN_SOAK:-0}" -eq 0 ] || ways='^(units|error|layers|predicts|logs)'
[ "$pattern" = . ] || ways=.
install_broken
watch_leftovers
cd "$work" || exit 1
export DDPRUN_MUTANT=PLAN_CUT_MOVED

# near FILE OF: whether all weights are those of the other file, but for rounding.
near() {
    test -s "$1" && paste "$1" "$2" | awk '{ d = $2 - $4; size = $4 < 0 ? -$4 : $4; if (d < 0) d = -d; if (d > 2e-5 * (size + 0.01)) exit 1 }'
}
# outcome WAY: what two ranks come to by the changed plan: alike, other, or ended. Rounds may begin some batches later.
outcome() {
    rm -f weights
    run "$broken/bin/ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan "$1.json" "$program" "$1" --steps $steps --save weights
    if [ "$code" -ne 0 ]; then
        echo ended
        return
    fi
    for offset in 0 1 2; do
        ! near weights "$1.wanted.$offset" || { echo alike; return; }
    done
    echo other
}
# verdict WAY: whether the proofs accept the changed plan.
verdict() {
    run "$broken/bin/ddprun" -q --device softgpu scout --by state --prove "$program" "$1" --steps 60
    if grep -q '^proof (complete): passed' "$work/stdout" && grep -q '^proof (d): passed' "$work/stdout"; then
        echo accepted
    else
        echo refused
    fi
}
# changes OPERATIONS: all changes of a plan of so many.
changes() {
    local k
    for ((k = 1; k < $1; ++k)); do echo "rotate $k"; done
    for k in -2 -1 1 2; do echo "border $k"; done
    for ((k = 0; k < $1; ++k)); do
        echo "out $k"
        echo "twice $k"
        echo "log $k"
        echo "all $k"
    done
}

while read -r way; do
    for offset in 0 1 2; do
        "$program" "$way" --steps $steps --oracle 2 --offset $offset --save "$way.wanted.$offset" >/dev/null
    done
    run "$ddprun" -q --device softgpu scout --by state --prove --json "$way.json" "$program" "$way" --steps 60
    check "$way: there is a plan" test "$code" -eq 0
    unset DDPRUN_TEST_CUT
    check "$way: the plan as it is" test "$(outcome "$way") $(verdict "$way")" = 'alike accepted'
    while read -r cut; do
        export DDPRUN_TEST_CUT=$cut
        found="$(outcome "$way") $(verdict "$way")"
        echo "| $way | $cut | $found |" >>table
        check "$way, $cut: what trains to other weights is refused" test "$found" != 'other accepted'
    done < <(changes "$(grep -o '"made_by"' "$way.json" | wc -l)")
done < <("$program" | grep -E "$pattern" | grep -E "$ways")

echo '| way | change | ranks | proofs |'
echo '| --- | --- | --- | --- |'
cat table
for found in 'other accepted' 'other refused' 'alike accepted' 'alike refused' 'ended accepted' 'ended refused'; do
    echo "$found: $(grep -c "| $found |" table)"
done
check "some trained to other weights" grep -q '| other ' table
check "some that trained alike were accepted" grep -q '| alike accepted |' table
check "leaves no process" within 5 none_left
finish
