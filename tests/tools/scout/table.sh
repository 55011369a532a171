#!/usr/bin/env bash
# table.sh BUILD [PATTERN] - what `ddprun scout` finds in each program of the table (table.txt), whose own annotations say what is to be found: they play no
# part in the recording. A row that is not yet as expected holds what is found today, and fails when that changes. Ordinarily a third of the rows marked + is
# run (TESTS_PART), two at a time; with DDPRUN_SOAK=1 all. PATTERN: only rows that contain it. With SCOUT_TABLE=write the column "found" is written anew.
source "$(dirname "$0")/../../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
table=$here/table.txt
pattern=${2:-}
# shellcheck source=tests/tools/scout/rows.sh
source "$here/rows.sh"

# rows: the rows to run: number of the line, program, expected, found.
rows() {
    awk -F ' *[|] *' -v all="${DDPRUN_SOAK:-0}" -v pattern="$pattern" -v part="$part" '
        /^[+-] / && (all == 1 || pattern != "" || (/^[+]/ && NR % 3 == part % 3)) && index($0, pattern) {
            program = substr($1, 3); printf "%d|%s|%s|%s\n", NR, program, $2, $3 }' "$table"
}

cp "$table" "$work/table"
rows >"$work/rows"
rows_run verdict <"$work/rows"

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
