#!/usr/bin/env bash
# moved_cuts.sh BUILD [PATTERN [EACH]] - wrong cuts: each program is recorded once, and its plan is changed as move_cut.c says: its period
# begins later, state is put back or gradients are averaged elsewhere, an operation is left out, stands there twice or is made by other ranks, a
# read counts as a log, memory has another class. `ddprun check --plan` refuses each plan by which two ranks train to other weights, or print
# other figures, than the oracle, which plays no plan. Rounds may begin up to three batches later. How many were accepted of those that train alike is printed,
# and how many a check of form refused. Ordinarily one program's turn has come, and each 16th of its changes; with DDPRUN_SOAK=1 all changes of
# all programs are made. PATTERN: only programs that match it, and each EACH-th of their changes.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/near.sh"
pattern=${2:-.} each=${3:-1}
export build ddprun work
steps=61
watch_leftovers
cd "$work" || exit 1
# NAME | BY | PROGRAM AND WAY | ITS ORACLE | OPTIONS OF SCOUT
{
    for way in units units-float units-device units-device-float error error-double error-copy error-copy-double layers layers-copy predicts \
        logs shows skips; do
        echo "cuts-$way|state|plan/cuts $way|--oracle 2|"
    done
    for way in in-backward two-optimizers gemm-update delta-rule device-weight dropout noise clip ema sums history; do
        echo "habits-$way|state|plan/habits $way|--oracle 2|"
    done
    for way in ema rmsprop moments8 target counter shuffle-host prefetch copy-stream host-loss late-loss batch-hits; do
        echo "habits-$way|gradients|plan/habits $way|--oracle-gradients 2|"
    done
    echo 'habits-rnn|gradients|plan/habits rnn|--oracle-gradients 2|--per-rank a19'
    echo 'habits-rnn|state|plan/habits rnn|--oracle 2|--per-rank a19'
} >all-programs
turns=$(wc -l <all-programs) row=0
while IFS= read -r line; do
    if [ "${DDPRUN_SOAK:-0}" -ne 0 ] || [ "$pattern" != . ]; then
        [[ $line =~ $pattern ]] || continue
    else
        [ $((row++)) -eq $((part % turns)) ] || continue
        each=16
    fi
    echo "$line"
done <all-programs >programs

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
# proved PLAN RUN WORDS...: what `ddprun check` says of it.
proved() {
    local said
    said=$(TMPDIR=$work timeout -k 2 120 "$ddprun" check -q -n 2 --device softgpu --share-gpu --timeout 40 --plan "$1" "${@:3}" 2>&1 </dev/null | head -n 1) || :
    [[ $said == equal:* ]] && echo accepted || echo "refused | $said"
}
# changed NAME CHANGE K WORDS...: a line: what two ranks come to by a changed plan, and what check says of it.
changed() {
    local name=$1 change=$2 k=$3 run=$1.$2.$3 code=0
    "$build/tests/tools/plan/move_cut" "$name.json" "$change" "$k" "$run.json" >"$run.form" || code=$?
    if [ "$code" -eq 3 ]; then
        echo "| $name | $change $k | - | no form |"
        return
    fi
    echo "| $name | $change $k | $(outcome "$name" "$run.json" "$run" "${@:4}") | $(proved "$run.json" "$run" "${@:4}") |"
    rm -f "$run".*
}
export -f near outcome proved changed

count=$((part / turns)) # of changes, from program to program
: >table
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
    check "$name: check says equal" test "$(proved "$name.json" plain "${words[@]}")" = accepted
    while read -r change k; do
        [ $((count++ % each)) -ne 0 ] || echo "$name $change $k ${words[*]}"
    done < <("$build/tests/tools/plan/move_cut" "$name.json") >chosen-changes
    xargs -P 2 -L 1 bash -c 'changed "$@"' changed <chosen-changes >>table
done <programs

echo '| program | change | ranks | check |'
echo '| --- | --- | --- | --- |'
cat table
while read -r line; do
    report "$line" 'it trains to other weights, or prints other figures, and check says equal'
done < <(grep '| other | accepted |' table)
# counted BY OUTCOME VERDICT: how many rows of the table.
counted() {
    grep -cE "^\| [^|]*-$1 \| [^|]* \| $2 \| $3 " table
}
echo '| | by state: accepted | refused | by gradients: accepted | refused |'
echo '| --- | --- | --- | --- | --- |'
for found in other alike ended; do
    echo "| $found | $(counted state $found accepted) | $(counted state $found refused) | $(counted gradients $found accepted) | $(counted gradients $found refused) |"
done
echo "alike, but the plan's last write of state never comes: $(grep -c '| alike | refused | .* its last write of state, has come in no step' table)"
echo "no form: $(grep -c '| no form |' table)"
check "there are changes" test -s table
if [ "${DDPRUN_SOAK:-0}" -ne 0 ] && [ "$pattern" = . ]; then
    check "at least 300 trained to other weights, or printed other figures" test "$(counted '[a-z]*' other '(accepted|refused)')" -ge $((300 / each))
    # An operation that all ranks make may leave another gradient in a last round that is not complete: check sees it, no update does.
    check "of those that trained alike, check accepts four in five" \
        test "$(counted '[a-z]*' alike accepted)" -ge $((4 * $(counted '[a-z]*' alike refused)))
fi
check "leaves no process" within 5 none_left
finish
