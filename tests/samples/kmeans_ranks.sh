#!/usr/bin/env bash
# kmeans_ranks.sh BUILD - a program that trains nothing and sums over its data: ranks find what one process finds. With one rank bitwise
# the bare program; with several the same counts, and centroids within 1e-6; and nothing is said of a missing DDP_STEP.
source "$(dirname "$0")/../end_to_end/lib.sh"
kmeans=$build/samples/kmeans

# close_to FILE: the counts are those of the serial run, and each coordinate of a centroid is within 1e-6 of it.
close_to() {
    paste -d' ' "$work/serial" "$1" | awk '
        NF != 18 || $1 != $10 { bad = 1 }
        { for (i = 2; i <= 9; ++i) { d = $i - $(i + 9); if (d > 1e-6 || d < -1e-6) bad = 1 } points += $10 }
        END { exit bad || NR != 32 || points != 100000 }'
}

works "serial" "${kmeans}_plain" --save "$work/serial"
cp "$work/stdout" "$work/serial.out"
check "serial: it finds more than it began with" awk '{ d[NR] = $NF } END { exit !(NR == 5 && d[5] < 0.9 * d[1]) }' "$work/serial.out"
run "${kmeans}_plain" --iterations 1 --save "$work/first"
check "one iteration finds other clusters, and the comparison sees it" bash -c "! cmp -s '$work/first' '$work/serial'"
check "a comparison with itself" close_to "$work/serial"
run "$kmeans" --save "$work/bare"
check "annotated, without ddprun: bitwise the same" cmp "$work/bare" "$work/serial"
check "annotated, without ddprun: prints the same" cmp "$work/stdout" "$work/serial.out"
for ranks in 1 2 4; do
    rm -f "$work/found"
    SOFTGPU_CHAOS=$((ranks - 1)) run "$ddprun" -n "$ranks" --device softgpu "$kmeans" --save "$work/found"
    succeeded "$ranks ranks"
    check "$ranks ranks: counts equal, centroids within 1e-6" close_to "$work/found"
    check "$ranks ranks: prints the same" cmp "$work/stdout" "$work/serial.out"
    check "$ranks ranks: only the closing line" grep -Eqx "ddprun: $ranks ranks?, 45 calls of DDP_REDUCE, .* in all" "$work/stderr"
    check "$ranks ranks: one line" [ "$(grep -c '^ddprun: ' "$work/stderr")" -eq 1 ]
done
run "$kmeans" --points 31
check "too few points" [ "$code" -eq 2 ]
finish
