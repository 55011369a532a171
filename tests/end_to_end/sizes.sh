#!/usr/bin/env bash
# sizes.sh BUILD - with --try-ctas, collectives whose kernels have fewer blocks are compared with NCCL's choice in a trial of their own;
# where they make steps shorter they stay, on all ranks from one step on, else they end; results are the same bits either way, whatever
# packs buckets; without the option there are none.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"
trace=$work/trace
export XDG_CACHE_HOME=$work/cache
paced=("$build/tests/trainers/paced" --layers 12 --kib 64 --layer-us 3000 --forward-us 0)
link=latency_us=1000,gbytes_per_s=0.2

# parameters: their hash.
parameters() { sed -n 's/^ddprun: .*bitwise identical on all ranks (hash \([0-9a-f]*\),.*/\1/p' "$work/stderr"; }
# trials RANK: what the trace of the rank says of them.
trials() { grep '^{"ctas_trial"' "$trace/rank-$1.jsonl" | sed 's/"at_ns":[0-9]*//'; }

run env SOFTGPU_LINK=$link "$ddprun" -n 2 --no-trials "${paced[@]}" --steps 240
succeeded "without trials: all means are right"
without=$(parameters)

# On this link collectives slow backward, of 8 blocks half as much, of 4 a quarter. Again if the machine was busy with something else.
for ((try = 1; try <= 3; try++)); do
    rm -rf "$trace"
    run env SOFTGPU_LINK=$link,slows=2 "$ddprun" -n 2 --try-ctas 8 --trace "$trace" "${paced[@]}" --steps 240
    [ "$code" -eq 0 ] && ! grep -q '^ddprun: collectives have at most 4 blocks from step' "$work/stderr" || break
done
succeeded "fewer blocks: all means are right"
check "fewer blocks: what they cost is said" grep -qE '^ddprun: --try-ctas 8: communicators were made in [0-9.]+ ms and [0-9.]+ MiB' "$work/stderr"
for blocks in 8 4; do
    check "fewer blocks: a trial of $blocks has a result" grep -qE "^ddprun: --try-ctas: a step takes [0-9.]+ ms with at most $blocks blocks, and" "$work/stderr"
done
check "fewer blocks: the fewest stay" grep -q '^ddprun: collectives have at most 4 blocks from step' "$work/stderr"
check "fewer blocks: all ranks found the same" [ "$(trials 0)" = "$(trials 1)" ]
check "fewer blocks: the same bits (${without:-none})" [ "${without:-none}" = "$(parameters)" ]

# Here collectives slow nothing.
for groups in 1 2; do
    rm -rf "$trace"
    run env SOFTGPU_LINK=$link "$ddprun" -n 2 --try-ctas 1 --communicators "$groups" --trace "$trace" "${paced[@]}" --groups "$groups" --steps 240
    succeeded "no better, groups $groups: all means are right"
    check "no better, groups $groups: trials of 1 block alone" [ "$(trials 0 | grep -c '"most_ctas":1,')" = "$(trials 0 | grep -c .)" -a -n "$(trials 0)" ]
    check "no better, groups $groups: NCCL's choice stays" grep -q "^ddprun: collectives stay as NCCL chooses" "$work/stderr"
    [ "$groups" -gt 1 ] || check "no better: the same bits" [ "${without:-none}" = "$(parameters)" ]
done

rm -rf "$trace"
run env SOFTGPU_LINK=$link "$ddprun" -n 2 --trace "$trace" "${paced[@]}" --steps 120
succeeded "not asked for: all means are right"
check "not asked for: none" bash -c "! grep -q 'ctas_trial\|blocks' '$trace/rank-0.jsonl' '$work/stderr'"
finish
