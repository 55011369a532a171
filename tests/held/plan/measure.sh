#!/usr/bin/env bash
# [SERIES=../plan4] measure.sh BUILD [NAME...] - each trainer of the series by `ddprun -n N --plan auto` (N = $RANKS, 2), beside its oracle: the way, the
# exit code, how far the saved parameters are from the oracle's of either way (|difference| over |parameters|), and the last line that
# ddprun said. One row each; truth.txt has the verdict that is wanted.
set -euo pipefail
build=$(cd "${1:?measure.sh: which build folder?}" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/${SERIES:-.}"
shift
ranks=${RANKS:-2}
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-held-XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
if [ $# -eq 0 ]; then
    mapfile -t names < <(sed -n 's/^\([a-z0-9_]*\) | .*/\1/p' truth.txt)
    set -- "${names[@]}"
fi

# distance MINE ORACLE: of two files of raw floats; "-" where one is missing, "size" where they differ in length.
distance() {
    python3 - "$1" "$2" <<'END'
import array, math, sys
def floats(path):
    numbers = array.array('f')
    with open(path, 'rb') as file:
        numbers.frombytes(file.read())
    return numbers
try:
    mine, oracle = floats(sys.argv[1]), floats(sys.argv[2])
except OSError:
    print('-')
    sys.exit()
if len(mine) != len(oracle):
    print('size')
else:
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(mine, oracle)))
    print('%.1e' % (apart / (math.sqrt(sum(b * b for b in oracle)) + 1e-30)))
END
}

printf '%-16s %4s %-10s %8s %8s  %s\n' program exit way gradients state 'last line, and the verdict that is wanted'
for name in "$@"; do
    flags=(-O2 -g -I "$here")
    libraries=(-lcublas)
    ! grep -q 'curand\.h' "$name.cu" || libraries+=(-lcurand)
    "$build/bin/softgpu-cc" "${flags[@]}" "$name.cu" -o "$work/$name" "${libraries[@]}" 2>"$work/out"
    "$build/bin/softgpu-cc" "${flags[@]}" -DORACLE "$name.cu" -o "$work/oracle" "${libraries[@]}" 2>"$work/out"
    code=0
    (cd "$work" && timeout 400 "$build/bin/ddprun" -n "$ranks" --device softgpu --share-gpu --timeout 120 --progress off --plan auto --slow \
        --yes "./$name" model.bin) >"$work/out" 2>"$work/err" </dev/null || code=$?
    way=none
    ! grep -q 'averaged over .* ranks' "$work/err" || way=gradients
    ! grep -Eq 'by state|ranks average state' "$work/err" || way=state
    for oracle in gradients state; do
        (cd "$work" && ORACLE_N=$ranks ORACLE_WAY=$oracle ORACLE_STEP=program ./oracle "$oracle.bin" >/dev/null 2>&1) || true
    done
    printf '%-16s %4d %-10s %8s %8s  %s || %s\n' "$name" "$code" "$way" "$(distance "$work/model.bin" "$work/gradients.bin")" \
        "$(distance "$work/model.bin" "$work/state.bin")" "$(grep '^ddprun: ' "$work/err" | tail -n 1 | cut -c 9-308)" \
        "$(sed -n "s/^$name | //p" truth.txt | awk -F ' [|] ' '{ print substr($5, 1, 40) }')"
    [ -z "${KEEP:-}" ] || cp "$work/err" "$KEEP/$name.err"
    rm -f "$work"/*.bin
done
