#!/usr/bin/env bash
# equality.sh BUILD - N ranks train what one process trains: bitwise the same on all ranks after every step, equal to the serial run up
# to summation order, and with one rank bitwise equal to the bare program.
source "$(dirname "$0")/lib.sh"

# equal NAME RANKS SERIAL OPTIONS... -- PROGRAM...: trains and compares. The program saves to "$work/rank-%d".
equal() {
    local name=$1 ranks=$2 serial=$3
    in_turn 3 || return
    shift 3
    rm -f "$work"/rank-*
    works "$name: ends well" "$ddprun" -n "$ranks" --check-every 1 "$@" --save "$work/rank-%d"
    same_on_all_ranks "$name" "$ranks"
    if [ "$ranks" -eq 1 ]; then
        check "$name: bitwise the bare program" cmp "$work/rank-0" "$serial"
    else
        check "$name: serial up to summation order" "$compare" --quiet "$work/rank-0" "$serial" "$close"
    fi
}

# compared_every_step NAME STEPS: hashes were compared after each step and at the end.
compared_every_step() {
    check "$1: parameters compared after every step" grep -q "compared $2 times, last after step $2" "$work/stderr"
}

steps=$((sanitized ? 12 : 100))
digits_options=(--data "$data" --batch 96 --steps "$steps" --seed 5)
works "digits alone" "$digits_plain" "${digits_options[@]}" --save "$work/serial"
for ranks in 1 2 3 4; do
    equal "digits, $ranks ranks" "$ranks" "$work/serial" --bucket-mb 0.02 -- "$digits" "${digits_options[@]}" && [ "$ranks" -gt 1 ] || continue
    compared_every_step "digits, $ranks ranks" "$steps"
    check "digits, $ranks ranks: at least three buckets" grep -Eq '[^0-9]([3-9]|[1-9][0-9]) buckets' "$work/stderr"
done

ladder_options=(--steps 14 --batch 24)
for shape in "--streams 1" "--streams 2" "--accumulate 3" "--streams 2 --accumulate 2"; do
    read -r -a words <<<"$shape"
    works "ladder $shape alone" "$ladder" "${ladder_options[@]}" "${words[@]}" --save "$work/serial"
    equal "ladder $shape" 2 "$work/serial" --bucket-mb 0.02 -- "$ladder" "${ladder_options[@]}" "${words[@]}" && compared_every_step "ladder $shape" 14
    equal "ladder $shape, no overlap" 2 "$work/serial" --no-overlap -- "$ladder" "${ladder_options[@]}" "${words[@]}"
done

# Steps that change for good are learned anew: overlap comes back.
changing=(--steps 300 --accumulate 3 --fewer-from 20 --layers 4 --width 16 --batch 8)
run "$ladder" "${changing[@]}" --save "$work/serial"
equal "ladder that changes at step 20" 2 "$work/serial" --bucket-mb 0.001 -- "$ladder" "${changing[@]}" && check "ladder that changes at step 20: overlaps again" grep -Eq ' (1[5-9]|2)[0-9]{1,2} of them overlapped' "$work/stderr"

# Ranks that start from other weights take those of rank 0.
run "$ladder" "${ladder_options[@]}" --save "$work/serial"
equal "ladder with other seeds" 3 "$work/serial" -- "$ladder" "${ladder_options[@]}" --fault other-seeds

# The runtime inside the program: nothing of it can be interposed, and all of it passes the gate.
check "static runtime: no dynamic symbol of it" bash -c "! nm -D '${ladder}_static' | grep -q ' cuda'"
equal "ladder with static runtime" 2 "$work/serial" --bucket-mb 0.02 -- "${ladder}_static" "${ladder_options[@]}" &&
    compared_every_step "ladder with static runtime" 14 && overlapped "ladder with static runtime"

# By default: after the first three overlapped steps, every 100, and at the end.
run "$ddprun" -n 2 "$ladder" --steps 230
check "compared by default: after steps 2 and 5, 3 times from the first overlap, of which one is step 5, every 100, at the end" grep -q 'compared 7 times, last after step 230 of 230' "$work/stderr"

# Whatever may be delayed is delayed: a missing event would show.
run "$ladder" "${ladder_options[@]}" --streams 2 --save "$work/serial"
for seed in 1 2 3; do
    export SOFTGPU_CHAOS=$seed
    equal "ladder in disorder $seed" 3 "$work/serial" --bucket-mb 0.02 -- "$ladder" "${ladder_options[@]}" --streams 2
    unset SOFTGPU_CHAOS
done
finish
