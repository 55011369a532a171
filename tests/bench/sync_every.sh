#!/usr/bin/env bash
# sync_every.sh BUILD [SEEDS [K...]] - the validation loss of samples/chargpt after 600 steps on two ranks, averaged in every step and by
# --sync-every K (2 4 8 16 32 64) with an outer step: the median of SEEDS seeds (5), and bytes that travelled, as a share of those of
# every step. OUTER="--outer-lr 0.7 --outer-momentum 0.9" is another outer step, OUTER= none. Run by people; a row takes minutes.
set -euo pipefail
build=$(cd "${1:?usage: sync_every.sh BUILD [SEEDS [K...]]}" && pwd)
seeds=${2:-5}
read -ra rows <<<"${*:3}"
[ "${#rows[@]}" -gt 0 ] || rows=(2 4 8 16 32 64)
read -ra outer <<<"${OUTER---outer-lr 0.7 --outer-momentum 0.7}"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-sync-every.XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache SOFTGPU_WORKERS=1 SOFTGPU_BLAS_THREADS=1

# train OPTIONS...: sets losses, sorted, and share, of the bytes that every step would have sent.
train() {
    local seed
    losses=()
    for ((seed = 1; seed <= seeds; seed++)); do
        "$build/bin/ddprun" -n 2 "$@" "$build/samples/chargpt" --data "$root/samples/data/shakespeare.txt" --seed "$seed" \
            --eval-every 600 </dev/null >"$work/out" 2>"$work/err" || {
            cat "$work/err" >&2
            exit 1
        }
        losses+=("$(sed -n 's/^step 600 .* val //p' "$work/out")")
    done
    mapfile -t losses < <(printf '%s\n' "${losses[@]}" | sort -n)
    share=$(sed -n 's/^ddprun: --sync-every: .* parameters, \(.*\) MiB from each .* sent \(.*\) MiB$/\1 \2/p' "$work/err" |
        awk '{ printf "%.4f", $1 / $2 }')
}

# row NAME: K is $every, or 1.
row() {
    local median
    median=$(awk -v a="${losses[(seeds - 1) / 2]}" -v b="${losses[seeds / 2]}" 'BEGIN { printf "%.4f", (a + b) / 2 }')
    [ -n "${base:-}" ] || base=$median
    awk -v name="$1" -v median="$median" -v least="${losses[0]}" -v most="${losses[seeds - 1]}" -v base="$base" -v share="${share:-1}" -v every="$2" \
        'BEGIN { printf "%-12s %.4f (%.4f to %.4f)  loss/every step %.4f  bytes/every step %s, times K %.3f\n",
                 name, median, least, most, median / base, share, share * every }'
}

printf '%s seeds; outer step: %s\n' "$seeds" "${outer[*]:-none}"
train
row "every step" 1
for every in "${rows[@]}"; do
    train --sync-every "$every" "${outer[@]}"
    row "K = $every" "$every"
done
