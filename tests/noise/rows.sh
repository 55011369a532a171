#!/usr/bin/env bash
# rows.sh BUILD [--table FILE] [PATTERN] - ranks' parameters are compared within what a GPU's arithmetic varies by: what becomes of
# right programs that sum up by atomics, and of mistakes, is as rows.txt has it, tame (the stand-in's sums come in one order) and
# unruly (in any). Prints for each row what became of it, and at which step; --table: as Markdown, too.
#
# Ordinarily a sixth of the rows with + in front (chosen), and of six rates the second and fifth; with DDPRUN_SOAK=1 all, right programs with three seeds, or
# ten. PATTERN: only rows whose text matches, and all of those. What makes the stand-in unruly is in DDPRUN_TEST_UNRULY, a list of
# variables, in which %d is the seed. (Not :1 in `ddprun check`: one rank that repeats its bits in a second run has no noise.)
source "$(dirname "$0")/../end_to_end/lib.sh"
limit=60 asks=any shown=
soak=${DDPRUN_SOAK:-0}
read -ra noise <<<"${DDPRUN_TEST_UNRULY:-SOFTGPU_UNRULY=%d:1}"
table=/dev/null
if [ "${2:-}" = --table ]; then
    table=$3
    set -- "$1" "${@:4}"
fi
pattern=${2:-}
rates=(1e-1 1e-2 1e-3 1e-4 1e-5 1e-6)
compared=(0 2 4 5 6 100 200 300 400 500) # the steps at which this net's ranks are compared; 4 to 6: the first overlapped ones

# job: runs net with the variables, options and arguments of row(); $verdict is "trains", with ", the same" if all
# comparisons found the same bits, "ended STEP (TENSOR)" or another end; $step is that of an "ended".
job() {
    local line
    run env "${variables[@]}" "$ddprun" -n "$ranks" "${options[@]}" "$build/tests/noise/net" "${arguments[@]}"
    line=$(grep -v " differs between .* by rounding: " "$work/stderr" | grep -m 1 -E '^ddprun: (parameter|state) [0-9]+ of [0-9]+ .* differs between ')
    step=$(sed -nE 's/.* differs between [^:]* (after step ([0-9]+)|at the first DDP_STEP).*/0\2/p' <<<"$line")
    verdict="other end, exit code $code: $(grep -m 1 '^ddprun: ' "$work/stderr")"
    [ "$code" -ne 0 ] || verdict=trains
    [ "$code" -ne 0 ] || ! grep -q 'bitwise identical on all ranks' "$work/stderr" || verdict='trains, the same'
    [ "$code" -ne 0 ] && [ -n "$step" ] || return 0
    step=$((10#$step))
    verdict="ended $step ($(sed -E 's/^[^:]*: ([a-z]+ [0-9]+) of .*/\1/' <<<"$line"))"
}

# last_step STEP: that of the third comparison after it.
last_step() {
    local i
    for ((i = 0; compared[i] < $1; i++)); do :; done
    echo "${compared[i + 3]}"
}

# judge WANTED: why the verdict is not what is wanted; nothing if it is.
judge() {
    case $1:$verdict in
    trains:trains* | equal:trains* | same:*same | ended:ended*) ;;
    trains:* | equal:* | same:* | ended:*) echo "$verdict, not $1" ;;
    "<"*:ended*) [ "$step" -le "${1#<}" ] || echo "$verdict" ;;
    *:ended*) [ "$step" -le "$(last_step "$1")" ] || echo "$verdict, not until $(last_step "$1")" ;;
    *) echo "$verdict" ;;
    esac
}

# row RANKS WANTED[/WANTED-UNRULY] OPTIONS-OF-DDPRUN OPTIONS-OF-NET: tame and unruly.
row() {
    local ranks=$1 both=$2 wanted name="$4${3:+, $3}, $1 ranks" kind seed last cell cells='' why
    local -a options arguments variables
    read -ra options <<<"$3"
    read -ra arguments <<<"$4"
    for kind in tame unruly; do
        last=1 cell='' wanted=${both%/*}
        [ "$kind" = tame ] || wanted=${both#*/} last=$seeds
        for ((seed = 1; seed <= last; seed++)); do
            variables=()
            [ "$kind" = tame ] || variables=("${noise[@]//%d/$seed}")
            [ "$wanted" != - ] || options+=(--verify)
            job
            [[ $cell == *"$verdict"* ]] || cell+=${cell:+, }$verdict
            why=$(judge "${wanted/#-/ended}")
            if [ "$wanted $kind" = 'equal unruly' ] && [ -z "$why" ]; then
                run env "${variables[@]%:1}" "$ddprun" check -n "$ranks" "${options[@]}" "$build/tests/noise/net" "${arguments[@]}"
                [ "$code" -eq 0 ] || why="check: $(tail -n 1 "$work/stdout")"
            fi
            report "$name, $kind: $verdict" "$why"
        done
        cells+=" $cell |"
    done
    printf '| %s | %s | %s |%s\n' "$4${3:+, $3}" "$ranks" "$both" "$cells" >>"$table"
}

[ "$table" = /dev/null ] || printf '%s\n' '| program | ranks | wanted | tame | unruly |' '|---|---|---|---|---|' >"$table"
number=0
while IFS='|' read -r ranks options arguments wanted; do
    if [ "$soak" -eq 0 ] && [ -z "$pattern" ]; then
        [ "${ranks:0:1}" = + ] && chosen $((++number)) 6 || continue
    fi
    ranks=$(trim "${ranks#+}") options=$(trim "$options") arguments=$(trim "$arguments") wanted=$(trim "$wanted")
    [[ "$arguments $options" =~ $pattern ]] || continue
    read -ra steps <<<"$wanted"
    seeds=1
    [ "$soak" -eq 1 ] || ranks=${ranks:0:1}
    [ "$soak" -ne 1 ] || [ "${#steps[@]}" -gt 1 ] || seeds=3
    [ "${#ranks}" -eq 1 ] || arguments+=" --steps 2000" seeds=10
    for ((at = 0; at < ${#ranks}; at++)); do
        [ "${#steps[@]}" -gt 1 ] || row "${ranks:at:1}" "$wanted" "$options" "$arguments"
        for ((i = 0; i < ${#steps[@]} && ${#steps[@]} > 1; i++)); do
            [ "$soak" -eq 0 ] && [ -z "$pattern" ] && ((i % 3 != 1)) ||
                row "${ranks:at:1}" "${steps[i]}" "$options" "$arguments --rate ${rates[i]}"
        done
    done
done < <(grep -E '^[+ ] [0-9]' "$(dirname "$0")/rows.txt")
finish
