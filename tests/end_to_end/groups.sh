#!/usr/bin/env bash
# groups.sh BUILD - a trainer with two optimizers trains what one process trains, with overlap before the boundaries of both, whatever the
# rhythm of their steps; and a rank that steps them in another order than the others ends the job.
source "$(dirname "$0")/lib.sh"
limit=90
gan=$build/tests/matrix/gan_shared

# equal NAME RANKS OPTIONS...: N ranks against $work/serial, which the same options have made.
equal() {
    local name=$1 ranks=$2
    in_turn 3 || return
    shift 2
    rm -rf "$work"/rank-* "$work/trace"
    works "$name, $ranks ranks: ends well" "$ddprun" -n "$ranks" --check-every "${every:-1}" --bucket-mb 0.005 --trace "$work/trace" "$gan" --steps 24 "$@" --save "$work/rank-%d"
    same_on_all_ranks "$name, $ranks ranks" "$ranks"
    if [ "$ranks" -eq 1 ]; then
        check "$name: one rank is bitwise the bare program" cmp "$work/rank-0" "$work/serial"
    else
        check "$name, $ranks ranks: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5
    fi
}

# overlaps NAME: buckets of both groups leave before their boundaries.
overlaps() {
    local group
    for group in 0 1; do
        check "$1: group $group overlaps" grep -q "\"group\":$group,.*\"early\":true" "$work/trace/rank-0.jsonl"
    done
}

for shape in "--rhythm turns" "--rhythm critic --steps 48" "--rhythm joint --streams 3"; do
    read -r -a words <<<"$shape"
    works "$shape alone" "$gan" --steps 24 "${words[@]}" --save "$work/serial"
    for ranks in 1 2 4; do
        equal "$shape" "$ranks" "${words[@]}" && [ "$ranks" -gt 1 ] && overlaps "$shape, $ranks ranks"
    done
done

# Whatever may be delayed is delayed; and checks, which wait for streams of both groups, are few.
for shape in "--rhythm turns --streams 2" "--rhythm joint --streams 3"; do
    read -r -a words <<<"$shape"
    run "$gan" --steps 24 "${words[@]}" --save "$work/serial"
    for seed in 1 2; do
        export SOFTGPU_CHAOS=$seed
        every=100 equal "$shape in disorder $seed" 3 "${words[@]}" && overlaps "$shape in disorder $seed"
        unset SOFTGPU_CHAOS
    done
done

# No rhythm, another one from step 12 on, and for one step another order, when the other group's buckets are launched.
for shape in "--rhythm any --steps 40" "--change-at 12 --steps 40" "--rhythm joint --swap-at 12"; do
    read -r -a words <<<"$shape"
    run "$gan" --steps 24 "${words[@]}" --save "$work/serial"
    equal "$shape" 3 "${words[@]}" && [[ $shape == *swap* ]] && overlaps "$shape"
done

# What a group had that steps no more may go, its parameters too: the other group's are compared to the end.
run "$gan" --steps 24 --retire-at 9 --save "$work/serial"
equal "a generator that is done" 2 --retire-at 9 && check "a generator that is done: the discriminator is compared to the end" \
    grep -q 'bitwise identical on all ranks (hash .*, compared 33 times, last after step 33 of 33)' "$work/stderr"

run "$ddprun" -n 2 --bucket-mb 0.005 --timeout 60 "$gan" --steps 24 --rhythm joint --swap-at 12 --swap-rank 1
failed_with "another order on one rank" 1 "waits at a DDP_STEP of another group than expected.*, and rank|ranks [01] and [01] step different groups"
finish
