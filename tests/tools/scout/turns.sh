#!/usr/bin/env bash
# turns.sh BUILD [PATTERN] - proof (d) of `ddprun scout --prove`: ranks that take turns have, bit for bit, what one process has that
# plays all turns: in each program of table.txt in which scout finds gradients, but those of turns.txt, which holds what is said of
# them. Counters and generators of the device, and memory that each rank has for itself, are kept apart: a player that does not is seen.
# Ordinarily every fifth row marked + is run (TESTS_PART), two at a time; with DDPRUN_SOAK=1 all. PATTERN: only rows that contain it.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
pattern=${2:-}
export build ddprun work data
export TEXT=${data%/*}/shakespeare.txt
install_broken

# played PROGRAM...: what proof (d) says, without numbers of memory; or why scout failed.
played() {
    local words=$1 out=$work/out-$2
    words=${words//DATA/$data}
    words=${words//TEXT/$TEXT}
    words=${words//--steps 24/--steps 40}
    TMPDIR=$work timeout -k 2 300 "$ddprun" -q --device softgpu scout --prove --timeout 240 "$build/"$words >"$out" 2>"$out.err" </dev/null
    { grep '^proof (d): ' "$out" || head -n 1 "$out.err"; } | sed -E 's/^proof \(d\): //; s/ \([0-9]+ bytes, [^()]*\)//g; s/a[0-9]+(\[[0-9]+:[0-9]+\])?/MEMORY/g'
}
export -f played

# Rows in which gradients are found, with one order of the device's work.
awk -F ' *[|] *' -v all="${DDPRUN_SOAK:-0}" -v pattern="$pattern" -v part="$part" '
    /^[+-] / && (all == 1 || pattern != "" || (/^[+]/ && NR % 5 == part % 5)) && index($0, pattern) && $2 !~ /^refused/ && !/SOFTGPU/ {
        printf "%d|%s\n", NR, substr($1, 3) }' "$here/table.txt" >"$work/rows"
xargs -P 2 -d '\n' -I{} bash -c 'IFS="|" read -r number program <<<"$1"
    played "$program" "$number" >"$work/said-$number"' _ {} <"$work/rows"
while IFS='|' read -r number program; do
    shown=$work/out-$number.err
    wanted=$(awk -F ' *[|] *' -v program="$program" '$1 == program { print $2 }' "$here/turns.txt")
    said=$(cat "$work/said-$number")
    report "$program" "$([[ $said == "${wanted:-passed: 2 ranks that take turns}"* ]] || echo "$said; in turns.txt: ${wanted:-passed}")"
done <"$work/rows"

# habit NAME PROOF: what the player, which may be broken, says of tests/tools/scout/turns HABIT.
habit() {
    run env DDPRUN_MUTANT="${3:-none}" "$broken/bin/ddprun" -q --device softgpu scout --prove "$build/tests/tools/scout/turns" "$1"
    check "$1${3:+ with $3}: $2" grep -q "^proof (d): $2" "$work/stdout"
}
if [ -z "$pattern" ]; then
    habit counter passed
    habit counter failed SCOUT_PLAY_ALL_DROPPED
    habit noise passed
    habit noise failed SCOUT_PLAY_ALL_DROPPED
    habit statistics passed
    habit statistics failed PLAN_STATISTICS_KEPT
    habit addresses passed
    habit fails passed
    habit columns passed
    check "records that lie beside each other have no halves" grep -q "^proof (c): not possible here: when two ranks exchange halves .* records do not lie" "$work/stdout"
    check "and are not proved" test "$code" -eq 1
    habit labels "failed: .* cuMemcpyHtoD_v2 comes before the operation at which the plan averages gradients"
    check "numbers that are copied one by one, of which a step may begin with any, have no halves" grep -q "^proof (c): not possible here: a copy of 4 bytes" "$work/stdout"
    check "and no line shares a part of the records" test "$(grep -c 'DDP_SHARD(' "$work/stdout")" -eq 0
    check "it is left to be done by hand" grep -q '^by hand: DDP_SHARD, for the data of turns.cu:' "$work/stdout"
    habit mask "not possible here: weigh changes averaged gradients by what differs from batch to batch"
    habit seed "not possible here: weigh changes averaged gradients by what differs from batch to batch"
    habit twice "not possible here: backward computes gradients after the place where they are averaged"
fi
finish
