#!/usr/bin/env bash
# same.sh BUILD [WORDS...] - ranks that train on the same data are named by a run, and `ddprun check` calls them different, with one worker
# of the stand-in, where sums repeat their bits, and with four, where blocks add up in another order each time, as on a GPU. Right
# programs whose gradients are nearly equal, zero, tied or few are not named, and equal. Ordinarily a fifth of the rows
# run (in_turn), and right ones with four workers alone; DDPRUN_SOAK=1 runs all with both.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
program=$build/tests/tools/check/same
wanted=("${@:2}")
named='^ddprun: the (gradients|parameters) of all 2 ranks are equal, (bit for bit|but for the rounding of sums), in steps 2 to 4'

# WORDS | causes of check
wrong=('resident | same_batch' 'indices | same_batch' 'generator | same_batch' 'cursor | same_batch' 'rows | same_batch'
    'copies | direction' 'resident+large | same_batch' 'resident+centred | same_batch')
right=(plain one two few many tied one+tied tied_labels twins large ones few+ones one+bits few+bits sparse zeros late table few+table+decay
    table+sparse+decay scalar pair one+scalar one+pair centred whole whole+slow averaged few+averaged passes decay)

# row WORKERS WORDS [CAUSES]
row() {
    local words=$2 name="$2, $1 workers"
    if [ "${#wanted[@]}" -eq 0 ]; then in_turn 5; else [[ " ${wanted[*]} " == *" $words "* ]]; fi || return 0
    export SOFTGPU_WORKERS=$1
    checked 2 "" "$program" "$words"
    report "check: $name" "$(why_not $(($# > 2)) "${3:-null}" -)"
    works "a job: $name" "$ddprun" -n 2 "$program" "$words"
    check "a job: $name: the same data are named $(($# - 2)) times" [ "$(grep -cE "$named" "$work/stderr")" -eq $(($# - 2)) ]
}

for each in "${wrong[@]}"; do
    for workers in 1 4; do row "$workers" "$(trim "${each%%|*}")" "$(trim "${each#*|}")"; done
done
for i in "${!right[@]}"; do
    if [ "${DDPRUN_SOAK:-0}" -eq 1 ]; then row 1 "${right[i]}"; fi
    row 4 "${right[i]}"
done
finish
