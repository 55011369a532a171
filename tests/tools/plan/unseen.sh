#!/usr/bin/env bash
# unseen.sh BUILD [PATTERN] - the program unseen/, untouched, by `ddprun --plan auto` on 2 ranks: each of its ways trains to the weights and lines that its
# oracle says, or is refused by the sentence that names the cause. PATTERN: only ways that match it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.}
program=$build/tests/tools/plan/unseen
steps=41 # no whole number of rounds

# planned WAY OPTIONS...: by a plan that is made first.
planned() {
    run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 120 --plan auto --yes --slow "$program" "$1" --steps $steps "${@:2}"
}
# trains WAY: as the oracle, which has files of its own.
trains() {
    mkdir -p alone
    (cd alone && prepare "$1" run && "$program" "$1" --steps $steps --oracle 2 --save ../wanted >../lines)
    prepare "$1" run
    planned "$1" --save weights
    check "$1: exit code 0, not $code" test "$code" -eq 0
    check "$1: weights" near weights wanted 2e-5
    if [[ $1 =~ ^losses-(large|history)$ ]]; then
        check "$1: what the host reads" grep -q 'managed memory a[0-9]*, allocated at .*: what the host reads there without a copy is rank 0' "$work/stderr"
        check "$1: the loss of each batch is not promised" test "$(grep -c 'the loss of each batch' "$work/stderr")" -eq 0
    else
        check "$1: lines" cmp "$work/stdout" lines
    fi
    [[ $1 != finds-* ]] || check "$1: waits" grep -q 'by copies at unseen.cu:[0-9]* from unseen.cu:[0-9]*, which differ from step to step, the host waits' "$work/stderr"
    rm -rf alone run run.old weights
}
# refused WAY SENTENCE
refused() {
    planned "$1"
    check "$1: exit code 1, not $code" test "$code" -eq 1
    check "$1: says why" grep -qE "$2" "$work/stderr"
}
# same_orders WAY: it draws seeds, and all ranks draw the same.
same_orders() {
    run "$ddprun" -n 2 -v --device softgpu --share-gpu --timeout 120 --plan auto --yes --slow "$program" "$1" --steps $steps
    check "$1: exit code 0, not $code" test "$code" -eq 0
    grep '^epoch' "$work/stdout" >seeds
    grep -h '^\[1\] epoch' "$work/stdout" "$work/stderr" | sed 's/^\[1\] //' >other-seeds
    check "$1: six epochs" test "$(wc -l <seeds)" -eq 6
    check "$1: the same seeds on both ranks" cmp seeds other-seeds
}
# prepare WAY NAME: what the program is to find.
prepare() {
    case $1 in
    lists) mkdir "$2" ;;
    rotates | removes) : >"$2" ;;
    esac
}

watch_leftovers
cd "$work" || exit 1
while read -r way; do
    case $way in
    few-hot) refused "$way" 'the number of copies from the host at unseen.cu:[0-9]+ from unseen.cu:[0-9]+ differs from step to step; make it' ;;
    loss-pinned | losses-pinned)
        refused "$way" 'what (sum|loss)_kernel reads and writes is not known: it writes memory of the host, a[0-9]+ \(losses, (4|32) bytes, allocated at unseen.cu:'
        check "$way: at most three lines" test "$(grep -vc 'is scouted' "$work/stderr")" -le 3
        ;;
    clock-seeds)
        refused "$way" '^ddprun: findings are not proved: the host decides by the clock which batch it copies, and ranks read other times, at unseen.cu:[0-9]+( from unseen.cu:[0-9]+)?: read the clock once, before the first batch$'
        check "$way: at most two lines" test "$(grep -vc 'is scouted' "$work/stderr")" -le 2
        ;;
    clock-once | entropy-seeds) same_orders "$way" ;;
    losses-cleared)
        refused "$way" 'not possible by gradients: .*losses, 32 bytes, allocated at unseen.cu:[0-9]+ from unseen.cu:[0-9]+, written by loss_kernel\) differs from one process that computes all turns: the host writes it, and no call says when$'
        check "$way: by state, too" grep -q '^  not possible by state: .* the host writes a[0-9]* (losses, 32 bytes' "$work/stderr"
        check "$way: what to do" grep -q "^  for annotations instead of a plan: ddprun scout $program $way --steps $steps$" "$work/stderr"
        check "$way: three lines" test "$(grep -vc 'is scouted' "$work/stderr")" -eq 3
        ;;
    losses-feed | turns-gradient) refused "$way" 'depends on what it read from the device in the step before' ;;
    *) trains "$way" ;;
    esac
done < <("$program" | grep -E "$pattern")

# Two runs at the same time, in one folder, by one plan.
if grep -qE "$pattern" <<<makes-folder; then
    run "$ddprun" -q --device softgpu scout --prove --json plan.json "$program" plain --steps $steps
    pids=()
    for run in first second; do
        "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan plan.json "$program" makes-folder --run $run --steps $steps --save $run.weights \
            >$run.out 2>$run.err &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
        check "two runs at the same time: exit code 0" test $? -eq 0
    done
    check "two runs at the same time: both folders" test -d first -a -d second
    check "two runs at the same time: the same weights" cmp first.weights second.weights
fi
check "leaves no process" within 5 none_left
finish
