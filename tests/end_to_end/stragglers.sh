#!/usr/bin/env bash
# stragglers.sh BUILD - a rank that keeps the others waiting in each step is named in the closing lines and in the summary, with
# how long, and the network is not blamed for it; ranks that are late in turns, and ranks that are alike, accuse none.
source "$(dirname "$0")/lib.sh"
paced=$build/tests/trainers/paced

# train OPTIONS...: three ranks whose steps take about 25 ms on the device, and no core.
train() {
    works "trains right: $*" "$ddprun" -n 3 --summary-json "$work/end.json" "$paced" --layers 4 --kib 16 --layer-us 10000 --forward-us 5000 "$@"
}
# member NAME: its value in the summary.
member() { sed -n 's/^ *"'"$1"'": *\([^,]*\),*$/\1/p' "$work/end.json" | head -n 1; }
# between LEAST MOST VALUE
between() { awk -v least="$1" -v most="$2" -v value="$3" 'BEGIN { exit !(value + 0 >= least && value + 0 <= most) }'; }

late_us=$(patient 60000) # much later than a busy machine makes the others
train --late-us "$late_us" --late-rank 1 --steps 30
check "a late rank: the closing line names it" grep -Eq \
    '; waiting for rank 1: [0-9.]+ ms per step, last to arrive in [0-9]+ of [0-9]+ steps' "$work/stderr"
check "a late rank: so does the summary" [ "$(member waited_for)" = 1 ]
check "a late rank: by how much" between 15 $((2 * late_us / 1000)) "$(member waiting_ms)"
check "a late rank: the network is not blamed" between 0 15 "$(member exposed_ms)"
check "a late rank: nor by the forecast" between 0 15 "$(member exposed_planned_ms)"

train --late-us "$late_us" --late-rank -1 --steps 30
check "ranks that are late in turns: none is named" [ "$(grep -c 'waiting for rank' "$work/stderr")" -eq 0 ]
check "ranks that are late in turns: they wait for each other" grep -Eq '; waiting for each other: [0-9.]+ ms per step' "$work/stderr"
check "ranks that are late in turns: the network is not blamed" between 0 15 "$(member exposed_ms)"

# It is named by the latest 20 steps, whatever was before: steps of 50 ms, the last 24 late, of which a host that runs ahead may miss some.
for rank in 0 2; do
    in_turn 2 || continue
    train --forward-us 30000 --late-us "$late_us" --late-rank "$rank" --late-from 24 --steps 48
    check "rank $rank, late in the last 24 of 48 steps: the closing line names it" grep -Eq \
        "; waiting for rank $rank: [0-9.]+ ms per step, last to arrive in [0-9]+ of [0-9]+ steps(, and in [0-9]+ of the latest [0-9]+)?\$" "$work/stderr"
    check "rank $rank, late in the last 24 of 48 steps: so does the summary" [ "$(member waited_for)" = "$rank" ]
done

train --steps 40
check "ranks that are alike: none is named" [ "$(grep -c 'waiting for rank' "$work/stderr")" -eq 0 ]
check "ranks that are alike: nor in the summary" [ "$(member waited_for)" = null ]
finish
