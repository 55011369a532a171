#!/usr/bin/env bash
# measured.sh BUILD - buckets come from measured times: a plan of several buckets takes effect, promises what the trace then
# shows beside it, and every mean stays right; nothing is kept for another run; --bucket-mb turns off what it says.
source "$(dirname "$0")/lib.sh"
export SOFTGPU_LINK=latency_us=200,gbytes_per_s=0.2
paced=$build/tests/trainers/paced
shape=(--layers 12 --kib 256 --layer-us 1500 --forward-us 500)

works 'measured buckets: all means are right' "$ddprun" -n 2 --trace "$work/measured" "$paced" "${shape[@]}" --steps 70
for rank in 0 1; do
    check "rank $rank: a measured plan takes effect" grep -q '"predicted_us":' "$work/measured/rank-$rank.jsonl"
    check "rank $rank: no plan is promised before" bash -c "! grep '^{.step.:' '$work/measured/rank-$rank.jsonl' | head -n 8 | grep -q predicted_us"
    check "rank $rank: it has several buckets" grep -q '"predicted_us":.*"bucket":1,"early":true' "$work/measured/rank-$rank.jsonl"
done
run "$ddprun" -n 2 --trace "$work/declared" --summary-json "$work/end.json" "$paced" "${shape[@]}" --steps 70 --declares 1
succeeded 'gradients that are declared ready: all means are right'
check 'declared ready: the measured plan has several buckets' grep -q '"predicted_us":.*"bucket":1,"early":true' "$work/declared/rank-0.jsonl"
check 'the summary says how long steps waited' grep -qE '^ddprun: exposed communication: [0-9.]+ ms per step \(mean of [0-9]+ measured steps\); estimated lower bound for any bucket layout: [0-9.]+ ms' "$work/stderr"
# What was computed for the last plan, also where steps took less.
for name in planned:predicted_us bound:bound_us; do
    said=$(sed -n 's/^ *"exposed_'"${name%:*}"'_ms": \([0-9.]*\),$/\1/p' "$work/end.json")
    traced=$(grep -o "\"${name#*:}\":[0-9.]*" "$work/declared/rank-0.jsonl" | tail -n 1)
    check "the summary's exposed_${name%:*}_ms, $said, is the trace's $traced" awk -v ms="$said" -v us="${traced##*:}" \
        'BEGIN { exit !(ms != "" && us != "" && ms * 1000 - us < 0.01 && us - ms * 1000 < 0.01) }'
done
check 'nothing is kept for another run' [ ! -e "$XDG_CACHE_HOME/ddprun" ]

works 'fixed buckets: all means are right' "$ddprun" -n 2 --bucket-mb 0.5 --trace "$work/fixed" "$paced" "${shape[@]}" --steps 24
check 'fixed buckets: nothing is measured for a plan' bash -c "! grep -q predicted_us '$work/fixed/rank-0.jsonl'"
works 'gradients in pieces of 1 MiB: all means are right' "$ddprun" -n 2 --bucket-mb 1 --trace "$work/pieces" "$paced" --layers 4 --kib 2560 --layer-us 500 --steps 12
check 'gradients in pieces: five buckets and the small ones' grep -q '"bucket":5,"early":true' "$work/pieces/rank-1.jsonl"

# Memory that is freed between the first bucket and DDP_STEP is counted; after DDP_STEP, and before there is a plan, it is not.
works 'memory freed in backward' "$ddprun" -v -n 2 --bucket-mb 0.02 --summary-json "$work/amid.json" "$build/tests/trainers/ladder" --steps 12 --fault scratch
check 'memory freed in backward: the summary has it' awk '/"frees_in_backward"/ { n = $2 + 0 } END { exit !(n >= 6 && n <= 10) }' "$work/amid.json"
check 'memory freed in backward: so has -v' grep -Eq '^ddprun: rank [01]: ([6-9]|10) frees of memory and 0 loads of device code in 12 steps ' "$work/stderr"
run "$ddprun" -v -n 2 --bucket-mb 0.02 --summary-json "$work/amid.json" "$build/tests/trainers/ladder" --steps 12
check 'none is freed: nothing is said' bash -c "grep -q '\"frees_in_backward\": 0' '$work/amid.json' && ! grep -q 'frees of memory' '$work/stderr'"

# Three times as slow in the middle of the run: reviews continue, nothing breaks, and all ranks agree.
works 'slower from step 70 on, four ranks: all means are right' "$ddprun" -n 4 "$paced" --layers 6 --kib 256 --layer-us 200 --forward-us 0 --steps 140 --slower-from 70
finish
