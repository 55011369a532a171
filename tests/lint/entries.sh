#!/usr/bin/env bash
# entries.sh BUILD [--write] - docs/engine.md lists by which functions and variables each folder of the engine is entered, as the
# compiled files (nm) use them. --write makes the table. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
page=docs/engine.md
objects=$build/interpose/CMakeFiles/engine_objects.dir/engine
[ -d "$objects" ] || {
    echo "no $objects: build first"
    exit 1
}
table=$(mktemp "${TMPDIR:-/tmp}/ddprun-entries-XXXXXX")
trap 'rm -f "$table"' EXIT

# One symbol a line: what its folder does with it, the folder, the symbol. Objects of sources that are gone do not count.
symbols() {
    local source object folder
    for source in interpose/engine/*/*.c interpose/engine/*.c; do
        object=$objects/${source#interpose/engine/}.o
        folder=$(dirname "${source#interpose/engine/}")
        [ -e "$object" ] || {
            echo "$object does not exist: build first" >&2
            return 1
        }
        nm -g "$object" | awk -v folder="$folder" 'NF == 3 { print "has", folder, $3 } NF == 2 { print "uses", folder, $2 }'
    done
}
{
    printf '| folder | entered by |\n| --- | --- |\n'
    symbols | LC_ALL=C sort -u | awk '
        $1 == "has" { home[$3] = $2 }
        $1 == "uses" && ($3 in home) && home[$3] != $2 && !(($3) in seen) { seen[$3] = 1; list[home[$3]] = list[home[$3]] " " $3 }
        END { for (folder in list) print folder list[folder] }' | LC_ALL=C sort |
        while read -r folder names; do
            # shellcheck disable=SC2086 # several words
            printf '| `%s/` | %s |\n' "$folder" "$(printf '`%s`\n' $names | LC_ALL=C sort | paste -sd, | sed 's/,/, /g')"
        done
} >"$table"
[ "$(wc -l <"$table")" -gt 5 ] || {
    echo "no folder is entered: $(cat "$table")"
    exit 1
}
if [ "${2:-}" = --write ]; then
    sed -i '/^<!-- entries -->$/q' "$page"
    cat "$table" >>"$page"
elif ! sed '1,/^<!-- entries -->$/d' "$page" | diff "$table" - >/dev/null; then
    echo "$page: the table of entries is not what the compiled files use; bash tests/lint/entries.sh $build --write makes it:"
    sed '1,/^<!-- entries -->$/d' "$page" | diff "$table" - || true
    exit 1
fi
printf '%d folders, %d entries\n' "$(($(wc -l <"$table") - 2))" "$(grep -o '`[a-z_0-9]*`' "$table" | wc -l)"
