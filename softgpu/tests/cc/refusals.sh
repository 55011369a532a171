#!/bin/bash
# refusals.sh SOFTGPU_CC LIST [FLAG...] - each `refused` row of softgpu/conformance.txt is refused: its source does not compile, and the
# message has the row's words and names the file and line 3.
cc=$1
list=$(realpath "$2")
export NVCC_APPEND_FLAGS=${*:3}
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

trimmed() { sed 's/^ *//; s/ *$//'; }

while IFS='|' read -r kind feature _ words source; do
    [ "$(xargs <<<"$kind")" = refused ] && in_turn 3 || continue
    case_ "$(trimmed <<<"$feature")"
    printf '%b' "${source# }" >refused.cu
    if timeout -k 1 "$(patient 120)" "$cc" -c refused.cu >out 2>&1 </dev/null; then
        fail "it was compiled"
    fi
    prints "refused.cu:3:"
    prints "$(trimmed <<<"$words")"
done <"$list"
[ "$cases" -gt 0 ] || fail "no row is refused"
finish "$cases cases"
