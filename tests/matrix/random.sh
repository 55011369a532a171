#!/usr/bin/env bash
# random.sh BUILD [FIRST LAST] - random training programs (random.cu) by their seeds: with 2, 3 or 4 ranks, in an order of the device's
# work that the seed decides, the parameters after every step are equal to those of one process, and bitwise the same on all ranks.
#
# A program that suddenly makes more backward passes than before writes gradients whose buckets are launched: they are sent once more.
#
# In every fourth program, in all shapes, steps are captured into CUDA graphs, in all with MATRIX_CAPTURE=1.
#
# Ranks take turns in one program more, another in each run, and in 100 with DDPRUN_SOAK=1: they are compared with one process that plays
# all turns.
#
# Ordinarily seeds 1 to 10; with DDPRUN_SOAK=1, 1 to 500. Equal as in matrix.sh. Programs whose steps differ all the time may never overlap; most do.
source "$(dirname "$0")/../end_to_end/lib.sh"
limit=240
shapes=(shared static driver)
first=${2:-1}
last=${3:-$((${DDPRUN_SOAK:-0} == 1 ? 500 : sanitized ? 4 : 10))}
captures=${MATRIX_CAPTURE:-}
overlapped=0

# why_not SEED: trains; prints why it is not right, or nothing. Sets `overlaps`.
why_not() {
    local seed=$1 shape=${shapes[$1 % 3]} world=$((2 + $1 / 3 % 3)) rank settings=(env)
    local trainer=$build/tests/matrix/random_$shape
    local options=(--check-every 5 --bucket-mb "$((seed % 5 + 1))e-3" --timeout 120)
    [ "$((seed % 4))" -eq 0 ] || settings+=("SOFTGPU_CHAOS=$seed" "SOFTGPU_LINK=latency_us=200,gbytes_per_s=1")
    [ "$((seed % 8))" -ne 3 ] || options+=(--verify)
    export MATRIX_CAPTURE=${captures:-$((seed % 4 == 1 ? 1 + seed % 3 : 0))}
    local arguments=(--seed "$seed" --steps 20)
    rm -f "$work"/rank-* "$work/serial"
    run env MATRIX_DESCRIBE=1 "$trainer" "${arguments[@]}" --save "$work/serial"
    if [ "$code" -ne 0 ]; then
        echo "alone, exit code $code: $(tail -n 1 "$work/stderr")"
        return
    fi
    run "${settings[@]}" "$ddprun" -n "$world" "${options[@]}" "$trainer" "${arguments[@]}" --save "$work/rank-%d"
    if [ "$code" -ne 0 ]; then
        echo "$world ranks, $shape, exit code $code: $(grep '^ddprun' "$work/stderr" | head -n 1)"
        return
    fi
    for ((rank = 1; rank < world; rank++)); do
        cmp -s "$work/rank-0" "$work/rank-$rank" || echo "$world ranks, $shape: ranks 0 and $rank differ"
    done
    "$compare" --quiet "$work/rank-0" "$work/serial" 1e-5 >"$work/difference" 2>&1 ||
        echo "$world ranks, $shape: not equal to serial: $(tail -n 1 "$work/difference")"
}

for ((seed = first; seed <= last; seed++)); do
    why=$(why_not "$seed" | head -n 3 | tr '\n' ' ')
    if grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"; then overlapped=$((overlapped + 1)); fi
    if [ -z "$why" ]; then
        ok "seed $seed"
    else
        not_ok "seed $seed" "$why- again: bash tests/matrix/random.sh $1 $seed $seed"
    fi
    [ $((seed % 50)) -ne 0 ] || printf '# seeds %d to %d of %d, %d failures\n' "$first" "$seed" "$last" "$failures"
done
printf '# %d programs, %d of them overlapped, %d failures\n' "$((last - first + 1))" "$overlapped" "$failures"
[ "$((last - first))" -lt 9 ] || check "half of the programs overlapped" [ "$((2 * overlapped))" -ge "$((last - first))" ]

# Without what a region of turns cannot have, or what covers one rank's batches there.
compares_turns() { # SEED
    SOFTGPU_CHAOS=$1 MATRIX_TURNS=1 MATRIX_WITHOUT="threads step-in-thread groups buffer log-on-one" \
        run "$ddprun" -q --device softgpu check -n $((2 + $1 % 3)) --bucket-mb "$(($1 % 5 + 1))e-3" \
        "$build/tests/matrix/random_shared" --seed "$1" --steps 14
    succeeded "seed $1 in turns: check ends well"
    check "seed $1 in turns: equal to one process" grep -q '^equal: ' "$work/stdout"
}
if [ "${DDPRUN_SOAK:-0}" = 1 ]; then
    for ((seed = 1; seed <= 100; seed++)); do compares_turns "$seed"; done
elif [ "$sanitized" -eq 0 ] && [ -z "${2:-}" ]; then
    compares_turns "${TESTS_PART:-1}"
fi
finish
