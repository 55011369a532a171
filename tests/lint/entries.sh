#!/usr/bin/env bash
# entries.sh BUILD [--write] - tests/lint/entries.txt lists by which functions and variables each folder of the engine is entered, as
# the compiled files (nm) use them. --write makes the list. Called by tests/run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
list=tests/lint/entries.txt
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
    sed '/^#/!Q' "$list"
    symbols | LC_ALL=C sort -u | awk '
        $1 == "has" { home[$3] = $2 }
        $1 == "uses" && ($3 in home) && home[$3] != $2 { print home[$3], $3 }' | LC_ALL=C sort -u |
        awk '$1 != folder { folder = $1; printf "\n%s/\n", folder } { printf "    %s\n", $2 }'
} >"$table"
[ "$(grep -c '/$' "$table")" -gt 5 ] || {
    echo "too few folders are entered: $(cat "$table")"
    exit 1
}
if [ "${2:-}" = --write ]; then
    cat "$table" >"$list"
elif ! diff "$list" "$table"; then
    echo "$list is not what the compiled files use; bash tests/lint/entries.sh $build --write makes it"
    exit 1
fi
printf '%d folders, %d entries\n' "$(grep -c '/$' "$table")" "$(grep -c '^    ' "$table")"
