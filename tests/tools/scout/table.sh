#!/usr/bin/env bash
# table.sh BUILD [PATTERN] - what `ddprun scout` finds in each program of the table (table.txt), whose own annotations say what is to
# be found: they play no part in the recording. A row that is not yet as expected holds what is found today, and fails when that changes.
# Ordinarily a third of the rows marked + is run (TESTS_PART), two at a time; with DDPRUN_SOAK=1 all. PATTERN: only rows that contain it. With
# SCOUT_TABLE=write the column "found" is written anew.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
table=$here/table.txt
pattern=${2:-}
export build ddprun work data
export TEXT=${data%/*}/shakespeare.txt

# verdict NUMBER ROW: runs the row's program, and prints in one line what was found: "right": each parameter and gradient is annotated
# as it was found, and each step stands where it has to; "N missing, M superfluous", if not; "P parameters, G gradients" of a
# program without annotations; or the reason of a refusal, without numbers of memory. "; noted" if the host may take part.
verdict() {
    local number=$1 words=$2 out=$work/out-$1 code=0 missing superfluous
    words=${words//DATA/$data}
    words=${words//TEXT/$TEXT}
    local settings=()
    while [[ ${words%% *} == *=* ]]; do
        settings+=("${words%% *}")
        words=${words#* }
    done
    TMPDIR=$work env "${settings[@]}" timeout -k 2 300 "$ddprun" -q --device softgpu scout -v --timeout 240 "$build/"$words \
        >"$out" 2>"$out.err" </dev/null || code=$?
    if [ "$code" -ne 0 ]; then
        sed -n 's/^ddprun: \(no gradients found: \)\?/refused: /p' "$out.err" | head -n 1 |
            sed -E 's/ \([0-9]+ bytes, [^()]*\)//g; s/a[0-9]+\[[0-9]+:[0-9]+\]/MEMORY/g; s/ [0-9]+ / N /g'
        return
    fi
    missing=$(grep -c '^missing: ' "$out")
    superfluous=$(grep -c '^superfluous: ' "$out")
    if grep -q '^annotations: ' "$out"; then
        printf right
    elif [ "$missing" -gt 0 ] || [ "$superfluous" -gt 0 ]; then
        printf '%d missing, %d superfluous' "$missing" "$superfluous"
    else
        printf '%d parameters, %d gradients' "$(grep -c '^  parameter ' "$out")" "$(grep -c '^  gradient ' "$out")"
    fi
    if grep -q '^note: .*the host [a-z]' "$out"; then printf '; noted'; fi
    echo
}
export -f verdict

# rows: the rows to run: number of the line, program, expected, found.
rows() {
    awk -F ' *[|] *' -v all="${DDPRUN_SOAK:-0}" -v pattern="$pattern" -v part="$part" '
        /^[+-] / && (all == 1 || pattern != "" || (/^[+]/ && NR % 3 == part % 3)) && index($0, pattern) {
            program = substr($1, 3); printf "%d|%s|%s|%s\n", NR, program, $2, $3 }' "$table"
}

cp "$table" "$work/table"
rows >"$work/rows"
xargs -P 2 -d '\n' -I{} bash -c '
    IFS="|" read -r number program expected found <<<"$1"
    verdict "$number" "$program" >"$work/verdict-$number"' _ {} <"$work/rows"

as_expected=0
while IFS='|' read -r number program expected found; do
    shown=$work/out-$number.err
    verdict=$(cat "$work/verdict-$number")
    [ "$verdict" != "$expected" ] || as_expected=$((as_expected + 1))
    if [ "${SCOUT_TABLE:-}" = write ]; then
        [ "$verdict" != "$expected" ] || verdict=
        awk -F ' *[|] *' -v OFS=' | ' -v number="$number" -v found="$verdict" \
            'NR == number { line = $1 OFS $2; if (found != "") line = line OFS found; print line; next } { print }' "$work/table" >"$work/new"
        mv "$work/new" "$work/table"
        ok "$program"
    else
        wanted=${found:-$expected}
        report "$program" "$([ "$verdict" = "$wanted" ] || echo "found: $verdict; in the table: $wanted")"
    fi
done <"$work/rows"
[ "${SCOUT_TABLE:-}" != write ] || cp "$work/table" "$table"
printf '# %d of %d rows as expected\n' "$as_expected" "$(wc -l <"$work/rows")"

# In all rows, at least nine of ten are as expected.
check "nine rows of ten are as expected" awk -F ' *[|] *' '/^[+-] / { ++rows; open += NF > 2 && $3 != "" } END { exit open * 10 > rows }' "$table"

finish
