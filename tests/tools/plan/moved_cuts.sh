#!/usr/bin/env bash
# moved_cuts.sh BUILD [PATTERN] - wrong cuts: each program is recorded once, and its plan is changed as move_cut.c says: its period begins
# later, state is put back or gradients are averaged elsewhere, an operation is left out, or stands there twice, a read counts as a log,
# all ranks make an operation. The proofs refuse each plan by which two ranks train to other weights, or print other figures, than the
# oracle, which plays no plan. Rounds may begin up to three batches later. How many were accepted of those that train alike is printed,
# and how many a check of form refused. Ordinarily one change in 8 is made of a few programs; with DDPRUN_SOAK=1 all, of all.
# PATTERN: only programs that match it, with all changes.
source "$(dirname "$0")/../../end_to_end/lib.sh"
pattern=${2:-.}
export build ddprun work
steps=61
watch_leftovers
cd "$work" || exit 1
# NAME | BY | PROGRAM AND WAY | ITS ORACLE | OPTIONS OF SCOUT
{
    "$build/tests/tools/plan/cuts" | grep -E '^(units|error|layers|predicts|logs|shows|skips)' | sed 's/.*/cuts-&|state|plan\/cuts &|--oracle 2|/'
    for way in in-backward two-optimizers gemm-update delta-rule device-weight dropout noise clip ema sums history; do
        echo "habits-$way|state|plan/habits $way|--oracle 2|"
    done
    for way in ema rmsprop moments8 target counter shuffle-host prefetch copy-stream host-loss late-loss batch-hits; do
        echo "habits-$way|gradients|plan/habits $way|--oracle-gradients 2|"
    done
    echo 'habits-rnn|gradients|plan/habits rnn|--oracle-gradients 2|--per-rank a19'
    echo 'habits-rnn|state|plan/habits rnn|--oracle 2|--per-rank a19'
} >all-programs
few='^(cuts-(units|skips)|habits-(host-loss|rnn|clip))[|]'
[ "${DDPRUN_SOAK:-0}" -eq 0 ] && [ "$pattern" = . ] || few=.
grep -E "$few" all-programs | grep -E "$pattern" >programs

# near FILE OF TOLERANCE: whether both have the same words, and the same numbers but for rounding.
near() {
    test -s "$1" && test "$(wc -l <"$1")" -eq "$(wc -l <"$2")" && paste -d ' ' "$1" "$2" | awk -v most="$3" '{
        if (NF % 2 != 0) exit 1
        for (i = 1; i <= NF / 2; ++i) {
            a = $i; b = $(i + NF / 2)
            if (a !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) { if (a != b) exit 1; continue }
            d = a - b; size = b < 0 ? -b : b
            if (d < 0) d = -d
            if (d > most * (size + 0.05)) exit 1
        } }'
}
# outcome NAME PLAN RUN WORDS...: what two ranks come to by the plan: alike, other, or ended.
outcome() {
    local name=$1 plan=$2 run=$3 offset code=0
    rm -f "$run.weights"
    timeout -k 2 60 "$ddprun" -n 2 --device softgpu --share-gpu --timeout 40 --plan "$plan" "${@:4}" --save "$run.weights" >"$run.out" 2>"$run.err" </dev/null || code=$?
    if [ "$code" -ne 0 ]; then
        echo ended
        return
    fi
    sed -i '/^hidden/d' "$run.weights" # each rank's own: the newest is shown
    for offset in 0 1 2 3; do
        ! near "$run.weights" "$name.weights.$offset" 2e-5 || ! near "$run.out" "$name.out.$offset" 2e-4 || { echo alike; return; }
    done
    echo other
}
# changed NAME CHANGE K WORDS...: a line: what two ranks come to by a changed plan, and what the proofs say of it.
changed() {
    local name=$1 change=$2 k=$3 run=$1.$2.$3 said=
    code=0
    "$build/tests/tools/plan/move_cut" "$name.json" "$change" "$k" "$run.json" >"$run.form" || code=$?
    if [ "$code" -eq 3 ]; then
        echo "| $name | $change $k | - | no form |"
        return
    fi
    said=$(TMPDIR=$work timeout -k 2 120 "$build/tests/tools/scout/prove_again" "$ddprun" "$run.json" "${@:4}" 2>"$run.proof") || :
    [[ $said == passed:* ]] && said=accepted || said="refused | $said"
    echo "| $name | $change $k | $(outcome "$name" "$run.json" "$run" "${@:4}") | $said |"
    rm -f "$run".*
}
export -f near outcome changed

count=0
while IFS='|' read -r name by words oracle options; do
    name=$name-$by
    read -ra words <<<"$build/tests/tools/$words --steps $steps"
    read -ra oracle <<<"$oracle"
    for offset in 0 1 2 3; do
        "${words[@]}" "${oracle[@]}" --offset $offset --save "$name.weights.$offset" >"$name.out.$offset"
        sed -i '/^hidden/d' "$name.weights.$offset"
    done
    # shellcheck disable=SC2086
    run "$ddprun" -q --device softgpu scout --by "$by" --prove $options --json "$name.json" "${words[@]}"
    check "$name: there is a plan" test "$code" -eq 0
    check "$name: it trains as the oracle" test "$(outcome "$name" "$name.json" plain "${words[@]}")" = alike
    while read -r change k; do
        count=$((count + 1))
        [ "$pattern" != . ] || chosen $count 8 || continue
        echo "$name $change $k ${words[*]}" >>chosen-changes
    done < <("$build/tests/tools/plan/move_cut" "$name.json")
done <programs
xargs -P 2 -L 1 bash -c 'changed "$@"' changed <chosen-changes >table

echo '| program | change | ranks | proofs |'
echo '| --- | --- | --- | --- |'
cat table
while read -r line; do
    report "$line" 'it trains to other weights, or prints other figures, and the proofs accept it'
done < <(grep '| other | accepted |' table)
for found in other alike ended; do
    echo "$found: $(grep -c "| $found | accepted |" table) accepted, $(grep -c "| $found | refused " table) refused"
done
echo "alike, but the plan names no class for memory that persists across its new border: $(grep -c '| alike | refused | failed: memory without a class' table)"
echo "no form: $(grep -c '| no form |' table)"
check "some trained to other weights" grep -q '| other ' table
check "some that trained alike were accepted" grep -q '| alike | accepted |' table
check "leaves no process" within 5 none_left
finish
