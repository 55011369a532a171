#!/usr/bin/env bash
# overlap.sh BUILD - buckets leave while backward runs: shown by events on the device, on a link that takes its time.
source "$(dirname "$0")/lib.sh"
nccl_in_turn
export SOFTGPU_LINK=latency_us=300,gbytes_per_s=1

early='"early":true,"ready_us":-[0-9.]*,"begin_us":-'
works "with overlap: ends well" "$ddprun" -n 2 --bucket-mb 0.02 --trace "$work/trace" "$ladder" --layers 12 --width 64 --batch 64 --steps 20
for rank in 0 1; do
    check "rank $rank: a line for every step" [ "$(grep -c '^{"step":' "$work/trace/rank-$rank.jsonl")" -eq 20 ]
    check "rank $rank: buckets begin before backward ends" grep -q "$early" "$work/trace/rank-$rank.jsonl"
    check "rank $rank: the first steps wait for the boundary" grep -q '"step":1,"overlapped":false' "$work/trace/rank-$rank.jsonl"
    check "rank $rank: the last step overlaps" grep -q '"step":20,"overlapped":true' "$work/trace/rank-$rank.jsonl"
done

works "without overlap: ends well" "$ddprun" -n 2 --bucket-mb 0.02 --no-overlap --trace "$work/none" "$ladder" --layers 12 --width 64 --batch 64 --steps 20
check "without overlap: no bucket is launched early" bash -c "! grep -q '\"early\":true' '$work/none/rank-0.jsonl'"
check "without overlap: no bucket begins before backward ends" bash -c "! grep -q '\"begin_us\":-' '$work/none/rank-0.jsonl'"
finish
