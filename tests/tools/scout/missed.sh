#!/usr/bin/env bash
# missed.sh BUILD - memory of which scout asks "trained, or carried from batch to batch?": what is trained is refused whatever --per-rank
# says, by how it is written or by a proof, also with --unproved and in a plan that was written; what is carried trains.
source "$(dirname "$0")/../../end_to_end/lib.sh"
missed=$build/tests/tools/scout/missed
plans=$XDG_CACHE_HOME/ddprun/plans
cd "$work" || exit 1
question='trained, or carried from batch to batch\?'

auto() { run "$ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan auto --yes --slow "$@"; }
# asked MODE: scout asks, and nothing starts. $memory: of which.
asked() {
    run "$ddprun" -q --device softgpu scout -v "$missed" "$1"
    check "$1: exit code 1" test "$code" -eq 1
    check "$1: is asked about" grep -Eq "$question a[0-9]" "$work/stderr"
    memory=$(sed -nE 's/^  suspect .* (a[0-9]+)\[.*/\1/p' "$work/stdout" | sort -u | paste -sd,)
}

for mode in host bias mixed; do
    asked $mode
    [ $mode != host ] || check "host: no advice leads around a proof" test "$(grep -c -- --per-rank "$work/stderr")" -eq 0
    for option in --progress=off --unproved; do
        auto $option --per-rank "$memory" "$missed" $mode
        check "$mode $option: no job starts" test "$code" -eq 1
        check "$mode $option: says why" grep -Eiq "$question.* (no rank may have (it )?for itself|ranks must not keep their own)" "$work/stderr"
    done
    if [ $mode != mixed ]; then
        run "$ddprun" -q --device softgpu scout -v --per-rank "$memory" "$missed" $mode
        check "$mode: without a proof it is refused, named or not" test "$code" -eq 1
    fi
    [ $mode != host ] || continue
    run "$ddprun" -q --device softgpu scout -v --prove --per-rank "$memory" --json $mode.json "$missed" $mode
    check "$mode: a proof shows that it is trained" grep -Eq '^proof \(per rank\): failed: .* 0 depend on the first half of a batch, 0 on the second' "$work/stdout"
    check "$mode: exit code 1" test "$code" -eq 1
    check "$mode: proof (d) cannot see it" grep -q '^proof (d): passed' "$work/stdout"
    for option in --progress=off --unproved; do
        run "$ddprun" -n 2 --device softgpu --share-gpu $option --plan $mode.json "$missed" $mode
        check "$mode, by a plan that was written, $option" grep -Eq "the plan $mode.json is not proved: .*ranks must not keep their own" "$work/stderr"
    done
done

asked hidden
auto --per-rank "$memory" "$missed" hidden
check "hidden: trains" test "$code" -eq 0
check "hidden: is of each rank" grep -Eq "^ddprun:   per rank +$memory" "$work/stderr"
check "hidden: one plan is kept" test "$(find "$plans" -name '*.json' | wc -l)" -eq 1
auto --per-rank "$memory" "$missed" hidden
check "hidden: the kept plan is used" test "$code" -eq 0 -a "$(grep -c 'is scouted' "$work/stderr")" -eq 0
auto "$missed" hidden
check "hidden: is asked again where it is not named" grep -Eq "$question" "$work/stderr"
run "$ddprun" -n 2 --device softgpu --per-rank a1 "$missed" hidden
check "--per-rank without --plan auto" grep -q -- '--per-rank is an option of --plan auto and of ddprun scout' "$work/stderr"
finish
