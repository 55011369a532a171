#!/usr/bin/env bash
# sizes_test.sh - sizes.sh refuses a folder above its row, one far below it, a sum that is above that of the issue before, and a row
# that rises without a word about what was deleted; it takes what the table allows the issue, and a folder without history. Called
# by tests/run.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-sizes-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p base tests/lint
bad=0

# table ISSUE LINES SUM [ROW...]: a table for one folder, which has LINES lines.
table() {
    printf '%s\n' "issue $1" "base core $2" "sum core $3" "${@:4}" >tests/lint/sizes.txt
    seq "$2" >base/code.c
}

# expect PATTERN WHAT: sizes.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    local output code=0
    output=$(SIZES_ROOT=$work bash "$here/sizes.sh" build 2>&1) || code=$?
    if [ -z "$1" ] && [ "$code" -ne 0 ]; then
        printf '%s: not silent:\n%s\n' "$2" "$output"
        bad=1
    elif [ -n "$1" ] && { [ "$code" -ne 1 ] || ! grep -qE "$1" <<<"$output"; }; then
        printf '%s: not found (exit code %s):\n%s\n' "$2" "$code" "$output"
        bad=1
    fi
}

commit() {
    git add -A
    git -c user.name=test -c user.email=test@localhost commit -qm "$1"
}

table A 500 500
expect '' 'a table without history'
git init -q .
commit 'The issue before'
seq 501 >base/code.c
expect '^base: 501 lines, .* allows 500\.' 'a folder above its row'
seq 300 >base/code.c
expect '^base: 300 lines; lower its row' 'a folder far below its row'
table B 510 510
expect '^all of core: 510 lines .* 500 before issue B' 'a sum that rises'
expect '^base: 510 lines .* 500 before issue B; no commit' 'a row that rises'
table B 510 510 'allow B core 10'
commit 'Say nothing'
expect '^base: 510 lines .* no commit has a line' 'a row that rises in a commit that says nothing'
table B 509 509 'allow B core 10'
commit $'Say why\n\nsizes base: a helper of the other folder'
expect '' 'a row that rises by what is allowed, and says why'
table C 505 505 'allow B core 10'
commit 'The next issue begins'
expect '' 'a sum that falls'
table C 511 511 'allow B core 10'
expect '^all of core: 511 lines .* 509 before issue C' 'what was allowed another issue'
[ "$bad" -eq 0 ] && echo 'sizes.sh holds rows and sums, by history'
exit "$bad"
