#!/usr/bin/env bash
# right.sh BUILD [ROW...] - no false alarm: for every trainer of the samples and the tests `ddprun check` says what this table fixes, with
# 2, 3 and 4 ranks. Ordinarily a fifth of the rows marked `always` run (chosen), with one number of ranks; with DDPRUN_SOAK=1 all
# run with all. A ROW is its number.
#
# Most are equal. Three kinds are not:
#  - Trainers whose gradients are made of the rank's number, so that tests know the mean: N ranks train another model than one process.
#    That is a difference, and it is reported.
#  - Trainers that are right, and of which two runs cannot be compared: what they compute depends on the batch that a process sees, or
#    their batch cannot be divided.
#  - Programs that fail on one rank, because they require two: the exit code is the program's.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
trainers=tests/trainers
matrix=tests/matrix
wanted=("${@:2}")

# WHEN (always, or soak) | program, with variables before it | its arguments | options of check | exit code | causes
# TWELVES: 12 for each rank.
rows=(
    "always | samples/digits | --data $data --batch 48 --steps 12 --quiet || 0 | null"
    "always | samples/chargpt | ${chargpt_options[*]} || 0 | null"
    "soak | samples/chargpt | ${chargpt_options[*]} --accumulate 3 --layers 2 || 0 | null"
    "always | tests/tools/check/conv | ${conv_options[*]} || 0 | null"
    "soak | tests/tools/check/conv | ${conv_options[*]} | --steps 10 | 0 | null"
    # Parameters from the clock, which DDP_PARAMETER makes rank 0's.
    "always | tests/tools/check/conv | ${conv_options[*]} --clock-seed || 0 | null"
)
for program in accumulate clipping flat gan late_read mlp random realloc streams structs tied towers; do
    rows+=("always | $matrix/${program}_shared ||| 0 | null")
    rows+=("soak | $matrix/${program}_static ||| 0 | null" "soak | $matrix/${program}_driver ||| 0 | null")
done
for seed in {2..40}; do
    rows+=("soak | $matrix/random_shared | --seed $seed --steps 20 || 0 | null")
done
rows+=(
    "always | $trainers/ladder | --steps 12 || 0 | null"
    "always | $trainers/ladder_static | --steps 12 --accumulate 2 --streams 2 || 0 | null"
    "always | $matrix/gan_shared | --rhythm turns --streams 2 || 0 | null"
    "soak | $matrix/gan_shared | --rhythm critic --steps 48 || 0 | null"
    "always | $matrix/gan_shared | --rhythm joint --streams 3 || 0 | null"
    "always | $trainers/libraries | --way lt || 0 | null"
    "always | $trainers/libraries | --way batched || 0 | null"
    # What its updates write by cuBLAS, too, is overwritten in each step but behind the last.
    "always | $trainers/fused | gemm --steps 12 || 0 | null"
    "soak | $trainers/fused | gemm --steps 3 || 0 | null"
    "soak | $trainers/fused | gemm --steps 40 | --steps 12 | 0 | null"
    "soak | $trainers/fused | mixed --steps 12 || 0 | null"
    "soak | $trainers/fused | streams --steps 12 || 0 | null"
    "soak | $trainers/fused | momentum --steps 12 || 0 | null"
    "always | $trainers/libraries | --way vectors || 0 | null" # weights decay inside backward
    "soak | $trainers/libraries | --way strided || 0 | null"
)
[ ! -x "$build/$trainers/libraries_static" ] || rows+=("always | $trainers/libraries_static | --way strided || 0 | null")

# Rank r adds 1 + r to each gradient. The sums of N ranks are no multiple of what one process computes by N, but they are multiples.
by_rank='1 | direction scale data'
for mode in plain lazy worker; do rows+=("always | $trainers/habits | $mode || $by_rank"); done
# Not two-threads, which needs the order that ddprun's averages bring, and fails on one rank.
for mode in thread-per-backward step-in-thread annotate-late another-context; do
    rows+=("soak | $trainers/habits | $mode || $by_rank")
done
for mode in launch copy; do rows+=("always | $trainers/ways | $mode || $by_rank"); done
for mode in launch-ex cooperative driver-launch host-copy peer rows block batch fill values pool variables; do
    rows+=("soak | $trainers/ways | $mode || $by_rank")
done
for mode in whole mixed; do rows+=("always | $trainers/graphs | $mode || $by_rank"); done
rows+=("soak | $trainers/graphs | first || 1 | update")
for mode in late fork several groups alternate recapture exec-update buffer halves; do
    rows+=("soak | $trainers/graphs | $mode || $by_rank")
done
rows+=(
    "always | $trainers/graph_corners | drawn-in || 1 | update"
    "soak | $trainers/graph_corners | other-node || $by_rank"
    "always | $trainers/steps | plain || $by_rank"
    "soak | $trainers/steps | no-sync || $by_rank"
    "soak | $trainers/steps | layer-drop || $by_rank"
    "always | $trainers/escapes | once || $by_rank"
    "soak | $trainers/escapes | constant || $by_rank"
    "always | $trainers/corners | buffer || $by_rank"
    "soak | $trainers/corners | all-hidden || $by_rank"
    "always | $trainers/hangs ||| 1 | update"
    # Its gradients are noise of layer, step and rank.
    "always | $trainers/paced | --layers 4 --layer-us 500 --forward-us 500 --steps 20 || 1 | direction scale"
)

# They need two ranks, and their exit code reports it: the first by 1, which ddprun check makes 4, the other by 2.
rows+=(
    "always | $trainers/types_legacy | steady || 4 | -"
    "soak | $trainers/types_per_thread | steady || 4 | -"
    "always | $trainers/values | separate mean none 12 || 2 | -"
    # One rank does not call DDP_REDUCE.
    "always | tests/tools/check/sums | guarded || 2 | -"
)

# However little a step changes, and however fast rounding grows.
updates=tests/tools/check/updates
for rate in 0.1 1e-3 1e-6; do
    rows+=(
        "always | $updates | --rate $rate || 0 | null"
        "always | $updates | --rate $rate --chaos || 0 | null"
        # Gradients are sums: the update divides by the share.
        "always | $updates | --rate $rate --sums || 0 | null"
    )
done
rows+=(
    "always | $updates | --adam --warmup 500 || 0 | null"
    "always | $updates | --adam --warmup 500 --rate 1e-3 || 0 | null"
    "always | $updates | --steps 5 || 0 | null"
    # One gradient is rounding noise, and Adam makes an update of it as large as any other.
    "always | $updates | --adam --noise || 0 | null"
    # A gradient nearly cancels.
    "always | $updates | --cancels || 0 | null"
    # The training converges, and gradients become rounding noise.
    "always | $updates | --whole --rate 0.5 | --steps 60 | 0 | null"
    "always | $updates | --whole --rate 0.5 --sums | --steps 60 | 0 | null"
    # A product in bfloat16 rounds the sum over the share.
    "always | $updates | --bf16 || 0 | null"
)

# DDP_REDUCE alone, and in front of a training or besides.
sums=tests/tools/check/sums
rows+=(
    "always | samples/kmeans | --quiet || 0 | null"
    "soak | samples/kmeans | --quiet --points 1001 || 0 | null"
    "always | $sums | means || 0 | null"
    "always | $sums | means | --free | 0 | null"
    "always | $sums | chaos || 0 | null"
    "always | $sums | least || 0 | null"
    "always | $sums | timed || 0 | null"
    "always | $sums | prepared || 0 | null"
    "always | $sums | shown || 0 | null"
)

# Right, but not comparable.
rows+=(
    "always | $sums | chaos | --free | 3 | chaotic"
    # Whether the program takes the number of ranks out again is not seen.
    "always | $sums | local || 3 | scale"
    # No result depends on another.
    "always | $sums | totals || 3 | independent"
    "always | $sums | clock || 3 | not_repeatable"
    # A result that has to depend on the number of ranks.
    "always | $sums | largest || 3 | reduction"
    # In 64 steps that do not begin from the reference rounding has become chaos.
    "always | $updates | --chaos | --free | 3 | chaotic"
    "always | $updates | --frozen || 3 | not_moved"
    "always | $updates | --adam --warmup 500 --rate 1e-6 | --steps 8 | 3 | not_moved"
    # Its masks belong to the rank, as they should.
    "always | tests/tools/check/conv | ${conv_options[*]} --dropout || 3 | batch_dependent"
    # Random numbers from the host: as many on each rank as its share has items.
    "always | $updates | --drawn || 3 | batch_dependent"
    # Statistics of a share are not those of the batch.
    "always | tests/tools/check/conv | ${conv_options[*]} --batchnorm || 3 | batch_dependent"
    # 25 items on 2, 3 or 4 ranks.
    "always | tests/tools/check/conv | ${conv_options[*]} --batch 25 || 3 | indivisible"
    # The batch grows with the ranks, unless one rank has all of it.
    "always | tests/tools/check/conv | ${conv_options[*]} --local-batch 12 || 3 | data_set"
    "always | tests/tools/check/conv | ${conv_options[*]} --local-batch 12 | --alone '${conv_options[*]} --local-batch TWELVES' | 0 | null"
    # Each rank goes through its own part of the data set: its steps have other items than one process's, as with a wrong shuffle.
    "always | tests/tools/check/conv | ${conv_options[*]} --split-data || 1 | data"
)

# run_row NUMBER RANKS: `ok` or `not ok`.
run_row() {
    local _ program arguments options expected causes why name words begin=${EPOCHREALTIME/./}
    IFS='|' read -r _ program arguments options expected causes <<<"${rows[$1]}"
    program=$(trim "$program")
    read -ra words <<<"$arguments"
    name="$1: $2 ranks, ${program##*/} ${arguments//$data/...}"
    name=${name//$text/...}
    checked "$2" "${options//TWELVES/$((12 * $2))}" "$build/$program" "${words[@]}"
    why=$(why_not "$(trim "$expected")" "$(trim "$causes")" -)
    if [ -z "$why" ]; then
        ok "$name: $code $cause, $(((${EPOCHREALTIME/./} - begin) / 1000)) ms"
    else
        not_ok "$name" "$why; again: bash tests/tools/check/right.sh BUILD $1"
    fi
}

soak=${DDPRUN_SOAK:-0}
for ((row = 0, turn = 1; row < ${#rows[@]}; row++)); do
    if [ "${#wanted[@]}" -gt 0 ]; then
        [[ " ${wanted[*]} " == *" $row "* ]] || continue
    elif [ "$soak" -ne 1 ] && [[ ${rows[row]} != always* ]]; then
        continue
    fi
    [ "${#wanted[@]}" -gt 0 ] || chosen $((++turn)) 5 || continue
    for ranks in 2 3 4; do
        [ "$soak$ranks" != "0$((2 + turn / 5 % 3))" ] && [ "$soak" -ne 1 ] && [ "${#wanted[@]}" -eq 0 ] || run_row "$row" "$ranks"
    done
done
finish
