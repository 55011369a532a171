#!/usr/bin/env bash
# turns.sh BUILD - ranks that take turns at batches train as one process that plays all turns: the bits of all parameters, on each rank,
# on 2, 3 and 4 ranks, also where memory begins with garbage; and what turns cannot do ends the job by one line.
source "$(dirname "$0")/lib.sh"
limit=60
turns=$build/tests/trainers/turns
carried=$build/tests/trainers/turns_carried

# figure KEY: of rank 0, from the summary.
figure() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/summary.json" "$1"
}

# equal PROGRAM MODE RANKS OPTIONS...: each rank saves what one process saves that plays the turns of all, and rank 0 prints the same.
equal() {
    local program=$1 habit=$2 ranks=$3 rank
    shift 3
    rm -f "$work"/rank-* "$work/played"
    run "$program" "$habit" "$@" --play "$ranks" --save "$work/played"
    succeeded "$habit: one process plays $ranks turns"
    cp "$work/stdout" "$work/printed"
    run "$ddprun" -n "$ranks" --device softgpu --bucket-mb 0.001 --summary-json "$work/summary.json" "$program" "$habit" "$@" \
        --save "$work/rank-%d"
    succeeded "$habit: $ranks ranks end well"
    for ((rank = 0; rank < ranks; rank++)); do
        check "$habit: rank $rank of $ranks has the bits of one process" cmp "$work/played" "$work/rank-$rank"
    done
    check "$habit: rank 0 of $ranks prints the same" cmp "$work/printed" "$work/stdout"
}

# Operations of the device between the region's begin and its end: a share of those of all batches, and the update's.
makes_its_share() { # RANKS MOST
    local part
    part=$(python3 -c "print(100 * $(figure turn_operations) // ($(figure turn_operations) + $(figure turn_left_out)))")
    check "plain: of the device's operations in regions rank 0 of $1 makes $part %, at most $2" [ "$part" -le "$2" ]
}

habits="plain end functions late accumulate passes cleared side after prefetch managed shared each host gan graph graphs blas"
for habit in $habits; do
    for ranks in 2 3 4; do
        in_turn 6 || continue
        SOFTGPU_CHAOS=$ranks SOFTGPU_POISON=1 equal "$turns" "$habit" "$ranks"
    done
done
for habit in adam norm linear scaler metrics stop masks cursor average average-after statistics replay loader thread mapped sizes; do
    for ranks in 2 3 4; do
        in_turn 6 || continue
        SOFTGPU_CHAOS=$ranks SOFTGPU_POISON=1 equal "$carried" "$habit" "$ranks"
    done
done
for ranks in 2 3; do
    equal "$turns" plain "$ranks"
    makes_its_share "$ranks" $((100 / ranks + 5)) # the update is one of eight operations of a batch
    check "plain: the last round of 41 batches is not complete on 3 ranks" [ "$(figure turn_rounds)" -eq $((1 + 40 / ranks)) ]
    check "plain: batches are counted" [ "$(figure turn_batches)" -eq 41 ]
    check "plain: $ranks ranks overlap" [ "$(figure overlapped_steps)" -ge 1 ]
    check "plain: the last line says what a step is" grep -q "steps (each a round of $ranks of 41 batches in turns, " "$work/stderr"
done
equal "$turns" hogwild 3 --batches 37 # with an incomplete round the ranks would have saved what no step has averaged
works "hogwild: the last round is averaged at the end" "$ddprun" -n 3 --device softgpu "$turns" hogwild
equal "$turns" waits 2
check "waits: no bucket was sent twice" [ "$(figure repaired_steps)" -eq 0 ]
check "waits: DDP_MEAN after every batch is reported, with its cost" \
    grep -Eq '^ddprun: .*DDP_MEAN \(turns.cu:[0-9]+\) is called after every batch: .* for [0-9.e+-]+ ms a batch' "$work/stderr"

# As on a GPU that adds up in another order each time: near.
for seed in 1 2; do
    works "order $seed: one process plays two turns" "$turns" plain --play 2 --save "$work/played"
    run env SOFTGPU_UNRULY=$seed "$ddprun" -n 2 --device softgpu --bucket-mb 0.001 "$turns" plain --save "$work/rank-%d"
    succeeded "order $seed: two ranks end well"
    check "order $seed: the weights are near those of one process" "$compare" --quiet "$work/rank-0" "$work/played" 1e-5
done

# refused MODE PATTERN: ends the job by one line; and an engine that allows it does not say so.
refused=$build/tests/trainers/turns_refused
copy=$work/copy
mkdir -p "$copy/bin" "$copy/lib"
cp "$ddprun" "$copy/bin/"
ln -s "$build/lib/libddprun.so" "$build/lib/softgpu" "$copy/lib/"
ln -s "$build/tests/mutants/libddprun-engine.so" "$copy/lib/libddprun-engine.so"
refused() {
    in_turn 3 || return 0
    fails "$1 is refused" 1 "$2" "$ddprun" -n 2 --device softgpu "$refused" "$1"
    [ "$sanitized" -eq 0 ] || return 0 # there is no broken engine
    run env DDPRUN_MUTANT=TURN_ALLOWS_ALL "$copy/bin/ddprun" -n 2 --device softgpu --timeout "$patience" "$refused" "$1"
    check "$1: TURN_ALLOWS_ALL is caught" bash -c "! grep -Eq '^ddprun: .*($2)' '$work/stderr'"
}
works "DDP_MEAN after DDP_STEP, and after the region" "$ddprun" -n 2 --device softgpu "$refused" mean-after
refused mean 'DDP_MEAN \(.*\) stands between DDP_TURN_BEGIN \(.*\) and DDP_STEP, where one rank alone'
refused reduce 'DDP_REDUCE \(.*\) stands between DDP_TURN_BEGIN'
refused shard 'DDP_SHARD \(.*\) in a program with DDP_TURN_BEGIN \(.*\): in turns each rank'
refused weight 'DDP_TURN_BEGIN \(.*\) in a program with DDP_WEIGHT \(.*\): in turns each rank'
refused behind 'DDP_STEP \(.*\) stands after the region of DDP_TURN_BEGIN \(.*\), which has ended without DDP_STEP'
refused outside 'DDP_STEP \(.*\) stands outside of a region of turns, and DDP_STEP \(.*\) of the same gradients in one'
refused two-lines 'after the region of DDP_TURN_BEGIN \(.*\), which has ended without DDP_STEP: all passes'
refused no-end 'the program ends in the region of DDP_TURN_OPEN \(.*\): call DDP_TURN_END'
refused twice 'a second DDP_STEP \(.*\) in the region of DDP_TURN_BEGIN \(.*\), after DDP_STEP'
refused captured 'DDP_STEP \(.*\) in the region of DDP_TURN_BEGIN \(.*\) is captured'
refused graph 'a CUDA graph that holds DDP_STEP is launched in the region of DDP_TURN_BEGIN'
refused groups 'DDP_STEP \(.*\) of group 1 in the region of DDP_TURN_BEGIN \(.*\), whose DDP_STEP was of group 0'
refused left-out 'ranks have passed different regions since the last complete round: 2 of DDP_TURN_BEGIN \(.*\) on rank 0, 3 of'
refused skipped 'ranks 0 and 1 do not load the same batches: for 8 regions .* rank 1 has copied to its device what rank 0 has copied 1 region later'
refused stops 'rank . ended after 2. regions of turns \(DDP_TURN_BEGIN\), rank . after 2.: one of them has left a batch out, or ended'
fails "host: an update by the host is refused" 1 'differs between ranks 0 and 1 after step .*; an update by the host that does not stand under if \(DDP_TURN_UPDATES\(\)\)' "$ddprun" -n 2 --device softgpu "$refused" host
refused thread 'DDP_STEP \(.*\) in another thread than DDP_TURN_BEGIN'

# reported MODE PATTERN: the job goes on.
reported() {
    works "$1: the job ends well" "$ddprun" -n 2 --device softgpu "$refused" "$1"
    check "$1 is reported once" [ "$(grep -Ec "^ddprun: .*($2)" "$work/stderr")" -eq 1 ]
}
reported counts "argument 4 of kernel .*descend.*, after DDP_STEP \\(turns.h:[0-9]+\\), changes in every batch"
works "guards: a counter of updates" "$ddprun" -n 2 --device softgpu "$refused" guards
check "guards: is not reported" bash -c "! grep -q 'changes in every batch' '$work/stderr'"
reported seeds "ranks 0 and 1 have copied different data to their devices in each of the last 16 regions"
reported full "the gradients of all 2 ranks are equal, bit for bit, in rounds 2 to 4 of turns, .*: all ranks compute the same batch"

fails "a region in a region is refused" 1 'DDP_TURN_BEGIN \(.*\) in the region of DDP_TURN_BEGIN \(.*\), which has not ended' \
    "$ddprun" -n 2 --device softgpu "$refused" nested
fails "an end without a region is refused" 1 'DDP_TURN_END \(.*\) without a region' "$ddprun" -n 2 --device softgpu "$refused" no-begin
finish
