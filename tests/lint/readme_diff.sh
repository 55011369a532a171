#!/usr/bin/env bash
# readme_diff.sh - the README shows what annotations a trainer needs as the difference of two programs that are built and
# tested; this checks that it is the difference. Called by tests/run.sh; `--write` brings the README up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
begin='<!-- diff of samples/digits/main_plain.c and main.c: written by tests/lint/readme_diff.sh -->'

block=$(
    printf '```diff\n'
    # Without the names and the line numbers.
    diff -U1 samples/digits/main_plain.c samples/digits/main.c | tail -n +3 | sed 's/^@@ .*/@@/' || true
    printf '```\n'
)
if ! grep -qF -e "$begin" README.md; then
    echo "README.md has no line: $begin"
    exit 1
fi

# The README with the block that follows the marker replaced.
expected=$(BEGIN_LINE=$begin BLOCK=$block awk '
    $0 == ENVIRON["BEGIN_LINE"] { print; print ENVIRON["BLOCK"]; replacing = 1; next }
    replacing && /^```diff/ { inside = 1; next }
    replacing && inside { if (/^```$/) { replacing = 0; inside = 0 } next }
    { print }' README.md)
if [ "${1:-}" = --write ]; then
    printf '%s\n' "$expected" >README.md
elif ! diff <(printf '%s\n' "$expected") README.md; then
    echo "README.md does not show the difference of the two programs; bash tests/lint/readme_diff.sh --write fixes it"
    exit 1
else
    echo "the README shows the difference of the two programs"
fi
