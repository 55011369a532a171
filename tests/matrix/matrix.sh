#!/usr/bin/env bash
# matrix.sh BUILD [CELL...] - {trainers} x {shapes} x {1, 2, 4 ranks} x {order of the device's work}: after every step the parameters
# are equal to those of one process that is fed the whole batch, bitwise the same on all ranks, and with one rank bitwise those of
# the bare program; the checks are silent; and buckets left during backward.
#
# Equal: for each parameter after each step, max|a - b| / max|b| is at most 1e-5 (samples/compare). The bare program must itself give
# the same bits in all shapes.
#
# Ordinarily every pair of values of two factors meets in some cell; with DDPRUN_SOAK=1 every combination does, in eight orders. A
# CELL is TRAINER/SHAPE/RANKS/ORDER, as failures name them. An order is 0 (as the device likes) or a seed of SOFTGPU_CHAOS, with
# slow links. Odd seeds verify every gradient and have buckets by measurement, not by size.
source "$(dirname "$0")/../end_to_end/lib.sh"
programs=$build/tests/matrix
limit=240
shapes=(shared static driver)
# Other ways to the driver, for one trainer each: opened at run time for the trainer alone, or for all; with a trainer that is a library
# itself (loaded.h); and a driver that looks its own functions up.
others=(streams/local clipping/global accumulate/plugin mlp/self)
worlds=(1 2 4)
trainers=(accumulate clipping flat gan managed memories mixed mlp realloc streams structs tied towers)

# Trainers whose gradients the host may write until DDP_STEP: nothing overlaps.
declare -A never_overlaps=([managed]=1)

# Trainers whose gradients are reached by the host: what is said of them.
declare -A says=([managed]='10 of 10 gradients and buffers are in memory that the host may write' [memories]='5 of 10 gradients and buffers are in memory that the host may write')

# The covering array: of the cells of trainer t, one for each shape s, the ranks and orders are those of a Latin square that t turns.
pairwise() {
    local t s
    for ((t = 0; t < ${#trainers[@]}; t++)); do
        for ((s = 0; s < 3; s++)); do
            printf '%s/%s/%s/%s\n' "${trainers[t]}" "${shapes[s]}" "${worlds[(s + t) % 3]}" "$(((s + t / 3) % 3))"
        done
    done
}

every_combination() {
    local trainer shape world order
    for trainer in "${trainers[@]}"; do
        for shape in "${shapes[@]}"; do
            for world in "${worlds[@]}"; do
                for order in {0..7}; do
                    printf '%s/%s/%s/%s\n' "$trainer" "$shape" "$world" "$order"
                done
            done
        done
    done
}

# The other ways, with 2 and 4 ranks, or with all numbers of ranks and orders.
other_cells() {
    local i world order
    for ((i = 0; i < ${#others[@]}; i++)); do
        if [ "${DDPRUN_SOAK:-0}" -ne 1 ]; then
            printf '%s/%s/%s\n' "${others[i]}" "$((i % 2 * 2 + 2))" "$((i % 3))"
            continue
        fi
        for world in "${worlds[@]}"; do
            for order in {0..7}; do
                printf '%s/%s/%s\n' "${others[i]}" "$world" "$order"
            done
        done
    done
}

# program_of TRAINER SHAPE: prints the program's path.
program_of() {
    printf '%s\n' "$programs/$1_${2/self/driver}"
}

# covers_pairs CELL...: any two of the four factors meet in all combinations of the values that occur.
covers_pairs() {
    printf '%s\n' "$@" | awk -F/ '
        { for (i = 1; i <= 4; i++) { values[i] += !(seen[i, $i]++); for (j = i + 1; j <= 4; j++) pairs[i, j] += !(met[i, j, $i, $j]++) } }
        END { for (i = 1; i <= 4; i++) for (j = i + 1; j <= 4; j++) if (pairs[i, j] != values[i] * values[j]) exit 1 }'
}

# serial TRAINER SHAPE: trains bare, once; the bits must not depend on the shape.
serial() {
    local file=$work/$1-$2.serial
    [ -e "$file" ] && return 0
    run "$(program_of "$1" "$2")" --save "$file"
    if [ "$code" -ne 0 ]; then
        not_ok "$1, $2 alone" "exit code $code: $programs/$1_$2"
    elif [ -e "$work/$1.serial" ] && ! cmp -s "$work/$1.serial" "$file"; then
        not_ok "$1, $2 alone" "other bits than in another shape: $programs/$1_$2"
    fi
    [ -e "$work/$1.serial" ] || cp "$file" "$work/$1.serial" 2>/dev/null
}

# why_not CELL: runs the cell; prints why it failed, or nothing.
why_not() {
    local trainer shape world order rank options=(--timeout 120)
    IFS=/ read -r trainer shape world order <<<"$1"
    # A step that is checked is waited for in DDP_STEP, which hides a missing order: with even seeds most are not.
    if [ "$((order % 2))" -eq 1 ]; then options+=(--verify --check-every 1); else options+=(--bucket-mb 0.01 --check-every 5); fi
    local settings=(env)
    [ "$order" -eq 0 ] || settings+=("SOFTGPU_CHAOS=$order" "SOFTGPU_LINK=latency_us=300,gbytes_per_s=1")
    [ "$shape" != self ] || settings+=(SOFTGPU_SELF_LOOKUP=1)
    local program=("$(program_of "$trainer" "$shape")" --save "$work/rank-%d")
    rm -f "$work"/rank-*
    run "${settings[@]}" "$ddprun" -n "$world" "${options[@]}" "${program[@]}"

    if [ "$code" -ne 0 ]; then
        echo "exit code $code: $(grep '^ddprun' "$work/stderr" | head -n 1)"
        return
    fi
    for ((rank = 1; rank < world; rank++)); do
        cmp -s "$work/rank-0" "$work/rank-$rank" || echo "ranks 0 and $rank differ"
    done
    if [ "$world" -eq 1 ]; then
        cmp -s "$work/rank-0" "$work/$trainer.serial" || echo "one rank differs from the bare program"
        return
    fi
    "$compare" --quiet "$work/rank-0" "$work/$trainer.serial" 1e-5 >"$work/difference" 2>&1 ||
        echo "not equal to serial: $(tail -n 1 "$work/difference")"
    [ -n "${never_overlaps[$trainer]:-}" ] || grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr" ||
        echo "no step overlapped"
    # As many times as there were boundaries; programs with two optimizers make more of them than steps.
    [ "$((order % 2))" -eq 0 ] || grep -Eq 'compared ([0-9]{2}) times, last after step \1 of \1\)' "$work/stderr" || echo "parameters were not compared after every step"
    local said
    # But for the summary, the seed of SOFTGPU_CHAOS, and what AddressSanitizer says where threads of a kernel wait for each other.
    said=$(grep -v 'SOFTGPU_CHAOS is on\|of them overlapped\|wall time\|exposed communication\|waiting for\|ranks wait for each other\|bitwise identical\|support makecontext' "$work/stderr")
    if [ -n "${says[$trainer]:-}" ]; then
        [[ $said == *"${says[$trainer]}"* && $said != *$'\n'* ]] || echo "it does not say which gradients wait"
    elif [ -n "$said" ]; then
        echo "something was said: $(head -n 1 <<<"$said")"
    fi
}

cells=("${@:2}")
if [ "${#cells[@]}" -eq 0 ]; then
    mapfile -t cells < <(pairwise)
    check "every pair of factors meets" covers_pairs "${cells[@]}"
    [ "${DDPRUN_SOAK:-0}" -ne 1 ] || mapfile -t cells < <(every_combination)
    mapfile -t -O "${#cells[@]}" cells < <(other_cells)
    # What a sanitizer finds in the engine does not depend on how the trainer reaches the driver.
    [ "$sanitized" -eq 0 ] || mapfile -t cells < <(printf '%s\n' "${cells[@]}" | grep /static/)
fi

done_count=0
for cell in "${cells[@]}"; do
    IFS=/ read -r trainer shape world order <<<"$cell"
    serial "$trainer" "$shape"
    why=$(why_not "$cell" | head -n 3 | tr '\n' ' ')
    if [ -z "$why" ]; then
        ok "$cell"
    else
        not_ok "$cell" "$why- again: bash tests/matrix/matrix.sh $1 $cell"
    fi
    done_count=$((done_count + 1))
    [ $((done_count % 100)) -ne 0 ] || printf '# %d of %d cells, %d failures\n' "$done_count" "${#cells[@]}" "$failures"
done
printf '# %d cells, %d failures\n' "${#cells[@]}" "$failures"
finish
