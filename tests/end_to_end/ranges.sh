#!/usr/bin/env bash
# ranges.sh BUILD - what a listener of NVTX gets: steps, buckets, checks and waits for ranks, each range closed in its thread; and without
# a listener the job is the same.
source "$(dirname "$0")/lib.sh"
shape=(--layers 6 --width 64 --batch 64 --steps 20)
listener=$build/tests/interpose/librange_listener.so

works "with a listener: ends well" env RANGES="$work/ranges" NVTX_INJECTION64_PATH="$listener" "$ddprun" -n 2 --bucket-mb 0.02 "$ladder" "${shape[@]}" --save "$work/rank-%d"
same_on_all_ranks "with a listener" 2
cp "$work/rank-0" "$work/heard"
for file in "$work"/ranges.*; do
    grep -q 'domain ddprun' "$file" && heard=$file
done
check "the domain is ddprun" [ -n "${heard:-}" ]
check "each step has a range" [ "$(grep -c '> DDP_STEP, step [0-9]*, group 0' "${heard:-/dev/null}")" -eq 20 ]
check "each bucket of each step has one, with a tensor's name" \
    [ "$(grep -c '> bucket [0-9]: 16384 bytes, t->layers\[l\].gradient (ladder.cu:[0-9]*)' "${heard:-/dev/null}")" -eq 120 ]
check "checks have" grep -q '> checks of step 1$' "$heard"
check "waits for ranks have, with their reason" grep -q '> waits for ranks: the first DDP_STEP after annotations changed' "$heard"
check "each range ends, in its thread" awk '
    $2 == ">" { ++depth[$1] }
    $2 == "<" && --depth[$1] < 0 { bad = 1 }
    END { for (thread in depth) bad = bad || depth[thread] != 0; exit bad }' "$heard"
works "without a listener: ends well" "$ddprun" -n 2 --bucket-mb 0.02 "$ladder" "${shape[@]}" --save "$work/rank-%d"
check "without a listener: the same bits" cmp "$work/rank-0" "$work/heard"
finish
