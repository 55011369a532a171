#!/usr/bin/env bash
# types.sh BUILD - gradients of every type come back as their exact mean, whichever default stream the program was compiled
# for, and keep their identity when their memory moves.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"

for flavour in legacy per_thread; do
    for mode in steady move forget; do
        run "$ddprun" -n 2 "$build/tests/trainers/types_$flavour" "$mode"
        succeeded "$flavour default stream, $mode"
        check "$flavour default stream, $mode: overlaps" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
    done
done

# What ddprun says once, and what it does not say.
run "$ddprun" -n 2 "$ladder" --batch 25
succeeded "shares that differ by one"
check "shares that differ by one: said once" [ "$(grep -c 'do not divide evenly' "$work/stderr")" -eq 1 ]
run "$ddprun" -n 3 "$ladder" --batch 2 # launches without blocks fail, which is the trainer's
check "a share of nothing: said" grep -q ': 2 items for 3 ranks: ranks from 2 on get none' "$work/stderr"
run "$ddprun" -n 2 "$ladder" --batch 24
check "equal shares: nothing said" bash -c "! grep -q 'do not divide evenly' '$work/stderr'"

# Ranks that copy the same batches are told so once; the trainer shards by DDP_SHARD unless asked not to.
check "other batches: nothing said" bash -c "! grep -q 'copied the same' '$work/stderr'"
run "$ddprun" -n 3 "$ladder" --fault same-batches
succeeded "the same batches on all ranks"
check "the same batches on all ranks: said once" [ "$(grep -c 'ranks 0 and 1 copied the same 3 batches' "$work/stderr")" -eq 1 ]
finish
