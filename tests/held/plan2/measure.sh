#!/usr/bin/env bash
# [SERIES=../plan3] measure.sh BUILD [NAME...] - each trainer of this folder by `ddprun -n N --plan auto` (N = $RANKS, 2), beside its oracle: the way, the
# exit code, the largest distance of a saved parameter from the oracle's over the largest parameter, and the last line that ddprun said.
# One row each; truth.txt has the verdict that is wanted.
set -euo pipefail
build=$(cd "${1:?measure.sh: which build folder?}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/${SERIES:-.}"
shift
ranks=${RANKS:-2}
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-held-XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
if [ $# -eq 0 ]; then
    mapfile -t names < <(sed -n 's/^\([a-z0-9_]*\)\.cu; .*/\1/p' truth.txt)
    set -- "${names[@]}"
fi

distance() {
    python3 - "$1" "$2" <<'END2'
import sys
try:
    mine, oracle = ([float(word) for word in open(path).read().split()] for path in sys.argv[1:3])
except OSError:
    print('-')
    sys.exit()
same = len(mine) == len(oracle) > 0
print('%.1e' % (max(abs(a - b) for a, b in zip(mine, oracle)) / max(abs(b) for b in oracle)) if same else 'size')
END2
}

printf '%-12s %4s %-10s %8s  %s\n' program exit way distance 'last line, and the verdict that is wanted'
for name in "$@"; do
    "$build/bin/softgpu-cc" -O2 -g "$name.cu" -o "$work/$name" -lcublas 2>"$work/out"
    (cd "$work" && "./$name" --save oracle.txt --oracle "$ranks" >/dev/null)
    code=0
    (cd "$work" && timeout 400 "$build/bin/ddprun" -n "$ranks" --device softgpu --share-gpu --timeout 120 --progress off --plan auto --slow \
        --yes "./$name" --save model.txt) >"$work/out" 2>"$work/err" </dev/null || code=$?
    way=none
    ! grep -q 'averaged over .* ranks' "$work/err" || way=gradients
    ! grep -Eq 'by state|ranks average state' "$work/err" || way=state
    printf '%-12s %4d %-10s %8s  %s || %s\n' "$name" "$code" "$way" "$(distance "$work/model.txt" "$work/oracle.txt")" \
        "$(grep '^ddprun: ' "$work/err" | tail -n 1 | cut -c 9-308)" "$(sed -n "s/^$name\.cu; \([a-z]*\);.*/\1/p" truth.txt)"
    [ -z "${KEEP:-}" ] || cp "$work/err" "$KEEP/$name.err"
    rm -f "$work"/*.txt
done
