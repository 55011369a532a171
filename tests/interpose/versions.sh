#!/usr/bin/env bash
# versions.sh COMPILER INCLUDE - every row of hooks.def has a name and version that CUDA's own header knows (PFN_<name>_v<version> in
# cudaTypedefs.h of the folder INCLUDE), in its flavour. Rows that are newer than the header are counted only.
set -euo pipefail
compiler=$1 include=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -e "$include/cudaTypedefs.h" ] || {
    echo "skipped: no cudaTypedefs.h in $include"
    exit 77
}
has=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$include/cuda.h")
known=$(grep -oE 'PFN_cu[A-Za-z0-9]+_v[0-9]+(_ptsz|_ptds)?' "$include/cudaTypedefs.h" | sort -u)
rows=$("$compiler" -E -P -x c -I "$root" "$root/tests/interpose/versions.h" | tr '@\n' '\n ' | sed -n 's/^row "\([A-Za-z0-9]*\)" \([0-9]*\) *\([a-z_]*\).*/\1 \2 \3/p')
count=0 newer=0 bad=0
while read -r name version ending; do
    count=$((count + 1))
    if [ "$version" -gt "$has" ]; then
        newer=$((newer + 1))
    elif ! grep -qx "PFN_${name}_v$version$ending" <<<"$known"; then
        echo "hooks.def: cudaTypedefs.h has no PFN_${name}_v$version$ending"
        bad=1
    fi
done <<<"$rows"
[ "$count" -gt 100 ] || {
    echo "only $count rows found"
    exit 1
}
[ "$bad" -eq 0 ] && echo "$count rows, $newer of them newer than CUDA $((has / 1000)).$((has % 1000 / 10))"
exit "$bad"
