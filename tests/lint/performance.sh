#!/usr/bin/env bash
# performance.sh BUILD - docs/performance.md quotes benchmarks: where these are arithmetic and repeat to the last digit, this checks that
# the page holds the lines that they print, but for the rows of some models, which the page leaves out. Called by tests/run.sh;
# `performance.sh BUILD --write` brings the page up to date.
set -euo pipefail
build=$(cd "${1:-build}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
page=docs/performance.md
declare -A left_out=([partition]='^(resnet50|bert-large|gpt2-124m|small-tensors), |^all models, one bucket' [scale]='^(resnet50|gpt2-124m|small-tensors) +[NP4]|^bert-large +[P4]|^- (resnet50|gpt2-124m|small-tensors|PCIe|4 slow GPUs)|^  outside .*hops of 5 and')

expected=$(cat "$page")
for bench in partition scale; do
    if [ ! -x "$build/bench/$bench" ]; then
        echo "skipped: $build/bench/$bench is not built"
        exit 77
    fi
    begin="<!-- output of build/bench/$bench: written by tests/lint/performance.sh -->"
    grep -qF -e "$begin" <<<"$expected" || {
        echo "$page has no line: $begin"
        exit 1
    }
    # The page with the block that follows the marker replaced.
    block=$(printf '```\n' && "$build/bench/$bench" | sed -E "/${left_out[$bench]}/d; s/ *\$//" && printf '```\n')
    expected=$(BEGIN_LINE=$begin BLOCK=$block awk '
        $0 == ENVIRON["BEGIN_LINE"] { print; print ENVIRON["BLOCK"]; replacing = 1; next }
        replacing && !inside && /^```/ { inside = 1; next }
        replacing && inside { if (/^```$/) { replacing = 0; inside = 0 } next }
        { print }' <<<"$expected")
done
if [ "${2:-}" = --write ]; then
    printf '%s\n' "$expected" >"$page"
elif ! diff <(printf '%s\n' "$expected") "$page"; then
    echo "$page does not show what the benchmarks print; bash tests/lint/performance.sh $1 --write fixes it"
    exit 1
else
    echo "$page shows what the benchmarks print"
fi
