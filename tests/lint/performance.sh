#!/usr/bin/env bash
# performance.sh BUILD - docs/performance.md quotes bench/partition, which is arithmetic and repeats to the last digit: the page holds
# the lines that it prints, but for the rows of some models, which the page leaves out; and the plan of buckets stays within its bar on
# every model. Called by tests/run.sh; `performance.sh BUILD --write` brings the page up to date.
set -euo pipefail
build=$(cd "${1:-build}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
page=docs/performance.md
bench=$build/bench/partition
left_out='^(resnet50|bert-large|gpt2-124m|small-tensors), |^all models, one bucket'
begin='<!-- output of build/bench/partition: written by tests/lint/performance.sh -->'

if [ ! -x "$bench" ]; then
    echo "skipped: $bench is not built"
    exit 77
fi
grep -qF -e "$begin" "$page" || {
    echo "$page has no line: $begin"
    exit 1
}
printed=$("$bench" | sed 's/ *$//')
[ "$(grep -c ' >= 0.9 *yes$' <<<"$printed")" -eq 5 ] || {
    echo "the plan of buckets misses its bar: $(grep ' >= 0.9 ' <<<"$printed")"
    exit 1
}
# The page with the block that follows the marker replaced.
block=$(printf '```\n' && sed -E "/$left_out/d" <<<"$printed" && printf '```\n')
expected=$(BEGIN_LINE=$begin BLOCK=$block awk '
    $0 == ENVIRON["BEGIN_LINE"] { print; print ENVIRON["BLOCK"]; replacing = 1; next }
    replacing && !inside && /^```/ { inside = 1; next }
    replacing && inside { if (/^```$/) { replacing = 0; inside = 0 } next }
    { print }' "$page")
if [ "${2:-}" = --write ]; then
    printf '%s\n' "$expected" >"$page"
elif ! diff <(printf '%s\n' "$expected") "$page"; then
    echo "$page does not show what bench/partition prints; bash tests/lint/performance.sh $1 --write fixes it"
    exit 1
else
    echo "$page shows what bench/partition prints"
fi
