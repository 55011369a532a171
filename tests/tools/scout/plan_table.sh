#!/usr/bin/env bash
# plan_table.sh BUILD [PATTERN] - each program of tests/tools/scout/table.txt that trains, by plan: `ddprun check --plan` finds the bits
# of one process that plays all turns on 2 ranks, of some on 3 and 4, or the program is refused, by what plan_table.md says of it. One
# that is refused by gradients is tried by state.
# A row of a program that adds up by atomics says after " / " what is found where SOFTGPU_UNRULY changes the order of its sums; all
# others are the same there. Ordinarily one program in 16 is run (TESTS_PART), two at a time; with DDPRUN_SOAK=1 all. PATTERN: only rows that
# contain it. PLAN_TABLE=write with DDPRUN_SOAK=1 writes what is found into the table.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
table=$here/plan_table.md
pattern=${2:-}
command -v python3 >/dev/null || skip "no python3, which reads JSON here"
# shellcheck source=tests/tools/scout/rows.sh
source "$here/rows.sh"

# refusal FILE: the reason in the first line of a message, without numbers of memory and names of files.
refusal() {
    head -n 1 "$1" | sed -E 's/^ddprun: //; s/ \((([^()]|\([^()]*\))*, )?[0-9]+ bytes(, ([^()]|\([^()]*\))*)?\)//g; s/: that was not so when its plan was made.*//; s/\ba[0-9]+(\[[0-9]+:[0-9]+\])?/MEMORY/g; s/ranks cannot take turns by the plan [^:]*: //
        s/proof \(d\) of the plan [^:]*: failed: (rank [0-9]+ before its first step: )?([^:]*).*/proof (d) fails: \2/
        s/proof \(complete\) of the plan [^:]*: (failed|not possible here): (rank [0-9]+ before its first step: )?/proof (complete), \1: /'
}
# planned FILE OPTION... -- PROGRAM...: the plan, if there is none yet.
planned() {
    [ -e "$1" ] || TMPDIR=$work timeout -k 2 300 "$ddprun" -q --device softgpu scout --prove --timeout 240 --json "$1" "${@:2}" >"$1.scout" 2>&1 </dev/null
}
# said PLAN OUT RANKS PROGRAM...: what `ddprun check` finds; its exit code.
said() {
    local plan=$1 out=$2 ranks=$3 code=0
    shift 3
    if [ ! -s "$plan" ]; then
        refusal "$plan.scout"
        return 2
    fi
    TMPDIR=$work timeout -k 2 300 "$ddprun" check -q -n "$ranks" --timeout 240 --device softgpu --share-gpu --plan "$plan" --json "$out.json" "$@" >"$out" 2>"$out.err" </dev/null || code=$?
    case $code in
    0) python3 -IS -c 'import json, sys
print("the same bits" if json.load(open(sys.argv[1]))["same_bits"] else "equal but for rounding")' "$out.json" ;;
    2) refusal "$out.err" ;;
    *) echo "WRONG, exit code $code: $(head -n 1 "$out")" ;;
    esac
    return "$code"
}
# checked NUMBER PROGRAM: what is found of it, with each number of ranks, is in $work/said-NUMBER-RANKS.
checked() {
    local plan=$work/plan-$1 ranks out code words settings
    words_of "${2/--steps 24/--steps 40}"
    for ranks in $(sed -n "s/^$1|.*|//p" "$work/rows"); do
        out=$work/row-$1-$ranks code=0
        {
            planned "$plan.json" -- "${words[@]}"
            said "$plan.json" "$out" "$ranks" "${words[@]}" || code=$?
            if [ "$code" -eq 2 ]; then
                planned "$plan.state.json" --by state -- "${words[@]}"
                printf 'by state: '
                said "$plan.state.json" "$out.state" "$ranks" "${words[@]}" || :
            fi
        } | paste -sd '|' | sed 's/|by state: /; by state: /' >"$work/said-$1-$ranks"
    done
}
export -f planned said refusal

# Programs, with the numbers of ranks.
programs() {
    awk -F ' *[|] *' '/^[+] / && /[|] refused/ { print substr($1, 3) "|2" }
        /^[+-] / && $2 !~ /^refused/ && !/SOFTGPU/ {
        program = substr($1, 3); print program "|2"
        if (program ~ /^tests\/matrix\/.*_shared/) print program "|3"
        if (program ~ /habits (decay|dropout|flat[+]zeroed[+]clip|host-norm|one|skip)$/) print program "|4"
    }' "$here/table.txt"
    awk -F ' *[|] *' '/^[+-] tests\/matrix\/.*_shared/ && $2 !~ /^refused/ && !/SOFTGPU/ {
        program = substr($1, 3); sub(/_shared/, "_static", program); print program "|2"
        sub(/_static/, "_driver", program); print program "|2"
    }' "$here/table.txt"
}
programs | sort -u | awk -F '|' -v all="${DDPRUN_SOAK:-0}" -v pattern="$pattern" -v part="$part" '
    { number += $1 != last; last = $1 }
    pattern != "" ? index($1, pattern) : all == 1 || number % 16 == part % 16 { print number "|" $0 }' >"$work/rows"
sort -t '|' -u -k 1,1n "$work/rows" | rows_run checked
while IFS='|' read -r number program ranks; do
    said=$(cat "$work/said-$number-$ranks") shown=$work/row-$number-$ranks
    name=${program//--layers 1 --width 16 --heads 2 --context 8 --warmup 0 --eval-every 1000 --eval-batches 1 --quiet/...}
    row="| \`build/$name\` | $ranks | "
    line=$(grep -F -- "$row" "$table") && wanted=${line#"$row"} && wanted=${wanted%' |'} || wanted=
    echo "$row$said$([[ $wanted != *' / '* ]] || echo " / ${wanted#*' / '}") |" >>"$work/lines"
    [ -n "${SOFTGPU_UNRULY:-}" ] && wanted=${wanted#*' / '} || wanted=${wanted%%' / '*}
    report "$program, $ranks ranks" "$([[ ${PLAN_TABLE:-} == write || $said == "$wanted" ]] || echo "$said; plan_table.md says otherwise")"
    report "$program, $ranks ranks: not wrong" "$(grep WRONG <<<"$said")"
done <"$work/rows"
if [ "${PLAN_TABLE:-}" = write ] && [ "${DDPRUN_SOAK:-0}" -eq 1 ] && [ -z "$pattern" ]; then
    sed -i '/^| `build/d' "$table"
    cat "$work/lines" >>"$table"
fi
finish
