#!/bin/bash
# refusals.sh SOFTGPU_CC LIST [FLAG...] - each `refused` row of softgpu/conformance.txt is refused: its source does not compile, and the
# message has the row's words and names the file and line 3.
set -u
cc=$1
list=$(realpath "$2")
export NVCC_APPEND_FLAGS=${*:3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
rows=0
failures=0
while IFS='|' read -r kind feature _ words source; do
    [ "$(xargs <<<"$kind")" = refused ] || continue
    rows=$((rows + 1))
    words=$(sed 's/^ *//; s/ *$//' <<<"$words")
    printf '%b' "${source# }" >refused.cu
    if timeout -k 1 120 "$cc" -c refused.cu >out 2>&1 </dev/null; then
        echo "FAILED:$feature: it was compiled"
    elif ! grep -q 'refused.cu:3:' out; then
        echo "FAILED:$feature: no refused.cu:3:"
    elif ! grep -qF -- "$words" out; then
        echo "FAILED:$feature: no '$words'"
    else
        continue
    fi
    sed 's/^/    /' out | head -20
    failures=$((failures + 1))
done <"$list"
echo "$rows refusals, $failures failures"
[ $failures -eq 0 ] && [ $rows -gt 0 ]
