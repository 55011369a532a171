#!/usr/bin/env bash
# layouts.sh BUILD - where fewer buckets make steps shorter than the plan's, steps have fewer buckets: on all ranks from one step on, once
# two trials have found it; results are the same bits.
source "$(dirname "$0")/lib.sh"
trace=$work/trace
# Plans count with 10 ns for each byte, whatever was measured, and an all-reduce takes 3 ms: they have too many buckets.
export SOFTGPU_LINK=latency_us=3000,gbytes_per_s=10 DDPRUN_TEST_NS_PER_BYTE=10
paced=("$build/tests/trainers/paced" --layers 12 --kib 64 --layer-us 1000 --forward-us 1000)

# bucket_counts RANK: of the plans that the trace of a rank has, in their order.
bucket_counts() { grep '^{"plan":' "$trace/rank-$1.jsonl" | sed 's/.*"buckets"://' | while read -r line; do grep -o '"bytes"' <<<"$line" | wc -l; done | tr '\n' ' '; }
# parameters: their hash.
parameters() { sed -n 's/^ddprun: .*bitwise identical on all ranks (hash \([0-9a-f]*\),.*/\1/p' "$work/stderr"; }

# Again if the machine was busy with something else.
for ((try = 1; try <= 3; try++)); do
    rm -rf "$trace"
    run "$ddprun" -n 2 --trace "$trace" "${paced[@]}" --steps 260
    [ "$code" -eq 0 ] && [ "$(bucket_counts 0 | wc -w)" -lt 4 ] || break
done
succeeded "fewer buckets: all means are right"
read -r -a counts <<<"$(bucket_counts 0)"
check "fewer buckets: the plan has several (${counts[*]})" [ "${counts[2]:-0}" -gt 1 ]
check "fewer buckets: later steps have fewer" [ "${counts[3]:-99}" -lt "${counts[2]:-0}" ]
check "fewer buckets: on all ranks" [ "$(bucket_counts 0)" = "$(bucket_counts 1)" ]
step=$(grep '^{"plan":4' "$trace/rank-0.jsonl" | grep -o '"after_step":[0-9]*' | cut -d: -f2)
check "fewer buckets: from one step on (${step:-none})" grep -q "^{\"plan\":4,\"group\":0,\"after_step\":${step:-none}," "$trace/rank-1.jsonl"
check "fewer buckets: two trials found them, by the same times on all ranks" bash -c \
    "[ \$(grep -c '^{\"layout_trial\":16.*\"buckets\":${counts[3]},' '$trace/rank-0.jsonl') -eq 1 ] &&
     cmp -s <(grep '^{\"layout_trial\"' '$trace/rank-0.jsonl' | sed 's/\"at_ns\":[0-9]*//') <(grep '^{\"layout_trial\"' '$trace/rank-1.jsonl' | sed 's/\"at_ns\":[0-9]*//')"
for rank in 0 1; do
    check "fewer buckets: rank $rank sends that many in each step from there on" \
        [ "$(grep '^{"step":' "$trace/rank-$rank.jsonl" | grep -v '"control":true' |
            awk -F'[:,]' -v after="${step:-0}" -v count="${counts[3]:-0}" '$2 > after && gsub(/"bucket":/, "") != count' | wc -l)" -eq 0 ]
done
hash=$(parameters)

# One group at a time: the boundary of the other, in each step, leaves its layouts alone.
# control_steps GROUP: how many there are with overlap, and how many of them have other buckets than the steps before.
control_steps() {
    grep "^{\"step\":.*\"overlapped\":true,\"group\":$1," "$trace/rank-0.jsonl" |
        awk '{ control = /"control":true/; count = gsub(/"bucket":/, "") } !control { own = count } control { differ += count != own; tried++ }
             END { print tried + 0, differ + 0 }'
}
# A group whose overlap does not pay tries none: with the ranks' words, a step has one all-reduce more. Again if a busy machine had trials of
# overlap repeated, and none of other buckets was reached.
for ((try = 1; try <= 3; try++)); do
    rm -rf "$trace"
    run "$ddprun" -n 2 --trace "$trace" "${paced[@]}" --layers 24 --groups 2 --steps 260
    [ "$code" -eq 0 ] && [ "$(control_steps 0)" = '0 0' ] && [ "$(control_steps 1)" = '0 0' ] || break
done
succeeded "two groups: all means are right"
tried=0
for group in 0 1; do
    read -r steps other <<<"$(control_steps "$group")"
    check "two groups: all $steps control steps of group $group have other buckets" [ "$other" -eq "$steps" ]
    tried=$((tried + steps))
done
check "two groups: other buckets are tried in $tried steps" [ "$tried" -gt 0 ]

run "$ddprun" -n 2 --no-overlap "${paced[@]}" --layer-us 0 --steps 260
check "fewer buckets: the same bits as without overlap (${hash:-none})" [ "${hash:-none}" = "$(parameters)" ]
finish
