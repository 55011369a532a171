#!/usr/bin/env bash
# sums.sh BUILD [PATTERN] - the program sums/, untouched, by a plan on 2 and 3 ranks, tame and unruly: what it prints of several batches is what one process
# prints that makes all turns, and so are the weights. A count of steps by which a kernel changes a variable is refused. Ordinarily the first way runs, and another one in turn; with DDPRUN_SOAK=1 all. PATTERN: only ways that
# match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/sums
watch_leftovers
cd "$work" || exit 1

# row WAY RANKS MOOD
row() {
    local name="$1, $2 ranks$3" unruly=()
    [ -z "$3" ] || unruly=(env SOFTGPU_UNRULY=3)
    rm -f weights
    run "${unruly[@]}" "$ddprun" -n "$2" --device softgpu --share-gpu --timeout 60 --plan plan.json "$program" "$1" --save weights
    check "$name: exit code 0, not $code" test "$code" -eq 0
    check "$name: weights" near weights "wanted-$2" 2e-5
    check "$name: figures" near "$work/stdout" "figures-$2" 2e-5
}

while read -r way; do
    [ "$way" = every-ten ] || [ "$pattern" != . ] || in_turn 2 || continue
    run "$ddprun" -q --device softgpu scout --by state --prove --json plan.json "$program" "$way"
    if [ "$way" = good-steps ]; then
        check "$way: refused" test "$code" -eq 1
        check "$way: says why" grep -q 'a[0-9]*\[0:4\] .*grows by one in each step, and a kernel that counts so may change a variable' "$work/stderr"
        continue
    fi
    check "$way: there is a plan" test "$code" -eq 0
    for ranks in 2 3; do
        "$program" "$way" --oracle $ranks --save wanted-$ranks >figures-$ranks
        row "$way" $ranks ''
        row "$way" $ranks ', unruly'
    done
done < <("$program" | grep -E "$pattern")
check "leaves no process" within 5 none_left
finish
