#!/usr/bin/env bash
# run.sh - the main job, from a fresh checkout to a trained network: sets up, builds what this needs, checks a few steps of `digits`
# (`ddprun check`), trains it with several ranks, trains it again as a single process on the same batches, and the same program without
# annotations by a plan, and compares. Uses the NVIDIA GPUs of the machine, or else the stand-in. tests/run.sh continues in the same
# build folder.
#
# Exit code 0 only if the check finds no difference, the test accuracy is at least 0.95, the parameters are bitwise identical on all
# ranks, the two trainings agree, and the program without annotations has the same bits.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

batch=96             # images a step, of all ranks together
least_accuracy=0.95  # on the test images
exact_steps=300      # up to here, and with equal shares, the two trainings agree to ...
most_difference=1e-5 # ... this, max|a - b| / max|b| of each tensor: rounding in another order
checked_steps=8      # by ddprun check; the last of them overlap with backward
planned_steps=100    # by ddprun --plan

usage() {
    cat <<'END'
Usage: bash samples/run.sh [options]
Builds ddprun and a sample, trains a network on handwritten digits with several ranks, and compares it with a serial run.

  --ranks N    number of ranks (default 2)
  --steps N    training steps (default 300)
  --device D   auto, gpu or softgpu (default auto: the GPUs of this machine, or else the stand-in)
  --help       print this
END
}

say() {
    printf '\n== %s\n' "$*"
}

fail() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 1
}

usage_error() {
    printf 'run.sh: %s; --help lists the options\n' "$*" >&2
    exit 2
}

ranks=2
steps=300
device=auto
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        usage
        exit 0
        ;;
    --ranks | --steps | --device)
        [ $# -ge 2 ] || usage_error "$1 wants a value"
        declare "${1#--}=$2"
        shift 2
        ;;
    *) usage_error "$1: unknown option" ;;
    esac
done
for name in ranks steps; do
    [[ ${!name} =~ ^[1-9][0-9]{0,5}$ ]] || usage_error "--$name ${!name}: expected a whole number from 1 on"
done
[[ $device =~ ^(auto|gpu|softgpu)$ ]] || usage_error "--device $device: expected auto, gpu or softgpu"

began_us=${EPOCHREALTIME/[.,]/}
read -r load_at_start _ </proc/loadavg
gpu_count=0
if command -v nvidia-smi >/dev/null; then
    gpu_count=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
fi
if [ "$device" = auto ]; then
    if [ "$gpu_count" -gt 0 ]; then device=gpu; else device=softgpu; fi
fi
say "setting up"
bash cmake/setup.sh
if [ "$device" = gpu ]; then bash cmake/build.sh release sample_run_gpu; else bash cmake/build.sh release sample_run; fi
launch=(build/bin/ddprun -n "$ranks")
if [ "$device" = gpu ]; then
    [ "$gpu_count" -gt 0 ] || fail "--device gpu: nvidia-smi lists no GPU"
    programs=build/samples/gpu
    [ -x "$programs/digits" ] || fail "$programs/digits was not built: no CUDA 13 compiler with its libraries was found"
    device_text="$(nvidia-smi -L | sed -n 's/^GPU [0-9]*: \(.*\) (UUID.*/\1/p' | sort | uniq -c | sed 's/^ *\([0-9]*\) /\1 x /' |
        paste -sd, -)"
    if [ "$gpu_count" -lt "$ranks" ]; then
        launch+=(--share-gpu)
        device_text+=", shared by the ranks"
    fi
    nccl=$(cmake -P cmake/Cuda.cmake | sed -n 's/^NCCL_LIBRARY=//p')
    [ -z "$nccl" ] || launch+=(--nccl "$nccl")
else
    programs=build/samples
    device_text="stand-in (CPU); no NVIDIA GPU"
    [ "$ranks" -gt "$(nproc)" ] || launch+=(--bind core) # the threads of a rank wait for each other often
    [ "$gpu_count" -eq 0 ] || device_text="stand-in (CPU), as asked"
fi

out=build/samples/run
rm -rf "$out"
mkdir -p "$out"
train=(--batch "$batch" --steps "$steps" --data samples/data/digits.csv)

# logged NAME COMMAND...: runs it, with a copy of its stdout and stderr in NAME.out and NAME.err.
logged() {
    local name=$1
    shift
    { { "$@" </dev/null | tee "$out/$name.out"; } 2>&1 >&3 | tee "$out/$name.err" >&2; } 3>&1
}

# Of this script and of all that it has started, the build included.
time_taken() {
    awk -v wall_us="$((${EPOCHREALTIME/[.,]/} - began_us))" '
        { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); cpu += 60 * part[1] + part[2] } }
        END { printf "%.1f s, %.1f s of CPU\n", wall_us / 1e6, cpu }' "$out/times"
}

checked="not made: one rank"
check_code=0
if [ "$ranks" -gt 1 ]; then
    [ "$steps" -ge "$checked_steps" ] || checked_steps=$steps
    check=("${launch[@]}" check --steps "$checked_steps" --json "$out/check.json" "$programs/digits" "${train[@]}" --quiet)
    say "checking $checked_steps steps: do $ranks ranks compute what one computes?"
    printf '%s\n' "${check[*]}"
    logged check "${check[@]}" || check_code=$?
    [ -s "$out/check.json" ] || fail "ddprun check came to no verdict"
    # Of the object itself: its members stand before those of the tensors.
    member() { sed -nE "s/^  \"$1\": \"?([^\",]*)\"?,?\$/\1/p" "$out/check.json" | head -n 1; }
    largest=$(member largest_difference)
    [ "$largest" = null ] || largest=$(LC_ALL=C printf '%.1e' "$largest")
    checked="$(member verdict): $checked_steps steps, $(member overlapped_steps) of them overlapped, differ from one process by at most $largest"
fi

say "training with $ranks ranks on: $device_text"
printf '%s\n' "${launch[*]} $programs/digits ${train[*]} --save $out/rank%d"
logged ranks "${launch[@]}" "$programs/digits" "${train[@]}" --save "$out/rank%d" || fail "the training with $ranks ranks failed"

say "the same training as one process"
printf '%s\n' "$programs/digits_plain ${train[*]} --save $out/serial"
logged serial "$programs/digits_plain" "${train[@]}" --save "$out/serial" || fail "the serial training failed"

# The program without annotations, by a plan: its batches are those of the ranks.
by_plan="not made: "
if [ "$ranks" -eq 1 ] || [ $((batch % ranks)) -ne 0 ]; then
    by_plan+="$batch images are no batches of $ranks ranks by turns"
elif [ "$device" = gpu ]; then
    by_plan+="on GPUs it is not tried yet"
else
    say "the same binary, on $ranks ranks by a plan (ddprun --plan)"
    head -n 1440 samples/data/digits.csv >"$out/digits.csv" # whole batches in each epoch
    turns=("$programs/digits_plain" --batch $((batch / ranks)) --data "$out/digits.csv" --quiet)
    scout=(build/bin/ddprun --device softgpu scout --prove --json "$out/plan.json")
    printf '%s\n' "${scout[*]} ${turns[*]} --steps 40"
    logged scout "${scout[@]}" "${turns[@]}" --steps 40 >/dev/null || fail "no plan was found for digits_plain, or it was not proved"
    printf '%s\n' "${launch[*]} --plan $out/plan.json ${turns[*]} --steps $((planned_steps * ranks)) --save $out/turns"
    logged turns "${launch[@]}" --plan "$out/plan.json" "${turns[@]}" --steps $((planned_steps * ranks)) --save "$out/turns" ||
        fail "the training by a plan failed"
    logged annotated "${launch[@]}" -q "$programs/digits" --batch "$batch" --data "$out/digits.csv" --quiet --steps "$planned_steps" \
        --save "$out/annotated" || fail "the training beside that by a plan failed"
    by_plan="NOT the parameters of the annotated program"
    ! cmp -s "$out/turns" "$out/annotated" ||
        by_plan="same parameters as the annotated program, bit for bit: sha256 $(sha256sum <"$out/turns" | cut -c1-16), after $planned_steps rounds of $ranks batches"
fi

say "comparing"
accuracy=$(sed -n 's/^test accuracy //p' "$out/ranks.out")
# steps_per_second RUN: by the clock of the program, for ddprun prints a line with steps/s, too.
steps_per_second() { sed -n 's/^[0-9]* steps in .* \([0-9.]*\) steps\/s,.*/\1/p' "$out/$1.err"; }
n_speed=$(steps_per_second ranks) one_speed=$(steps_per_second serial)
gained=$(awk -v n="$n_speed" -v one="$one_speed" 'BEGIN { if (one > 0) printf "%.2f times the steps of one process", n / one }')
[ "$device" = gpu ] || gained="not to be seen without GPUs: $ranks ranks and one process use the same $(nproc) cores ($gained). This run shows that the results are equal"
if awk -v load="$load_at_start" -v cores="$(nproc)" 'BEGIN { exit load < cores / 2 }'; then
    gained+="; others used this machine (load $load_at_start at the start)"
fi
effective_batch=$(sed -n 's/^.* effective batch \([0-9]*\)$/\1/p' "$out/ranks.err")
# What ddprun itself says at the end: how much it averaged, and what its own comparisons of the parameters found.
averaged=$(sed -n 's/^ddprun: \(.* gradients\{0,1\}, .*\)$/\1/p' "$out/ranks.err" | tail -n 1)
compared=$(sed -n 's/^ddprun: annotated parameters \(bitwise identical .*\)$/\1/p' "$out/ranks.err" | tail -n 1)

files=()
for ((rank = 0; rank < ranks; ++rank)); do
    [ -s "$out/rank$rank" ] || fail "rank $rank saved no parameters"
    files+=("$out/rank$rank")
done
mapfile -t hashes < <(sha256sum "${files[@]}" | cut -d' ' -f1 | sort -u)

build/samples/compare "$out/rank0" "$out/serial" | tee "$out/compare.out"
difference=$(sed -n 's/^largest difference //p' "$out/compare.out")

failures=()
# 3: no mistake, but shares of unequal size, which cannot be compared.
[ "$check_code" -eq 0 ] || { [ "$check_code" -eq 3 ] && [ $((batch % ranks)) -ne 0 ]; } || failures+=("ddprun check: $checked")
if [ ${#hashes[@]} -eq 1 ]; then
    identical="bitwise identical on all $ranks ranks, sha256 ${hashes[0]:0:16}"
else
    identical="NOT identical: $(sha256sum "${files[@]}" | cut -c1-16 | paste -sd' ' -)"
    failures+=("the parameters differ between ranks")
fi
[[ $by_plan != NOT* ]] || failures+=("digits_plain by a plan has other parameters than digits")
awk -v a="$accuracy" -v least="$least_accuracy" 'BEGIN { exit !(a >= least) }' ||
    failures+=("the test accuracy ${accuracy:-(none)} is below $least_accuracy")
if [ "$ranks" -gt 1 ]; then
    [ -n "$averaged" ] || failures+=("ddprun did not say that it averaged gradients")
    # By default it compares every 100 steps.
    [ "$steps" -lt 100 ] || [ -n "$compared" ] || failures+=("ddprun did not compare the parameters while training")
fi
note=""
if [ $((batch % ranks)) -ne 0 ]; then
    note=" (shares of unequal size: the mean over ranks is not quite the mean over the batch)"
elif [ "$steps" -gt "$exact_steps" ]; then
    note=" (after more than $exact_steps steps, rounding may have grown)"
elif ! [[ $difference =~ ^[0-9.]+e[-+][0-9]+$ ]] || ! awk -v d="$difference" -v most="$most_difference" 'BEGIN { exit !(d <= most) }'; then
    failures+=("the difference to the serial run is above $most_difference")
fi

times >"$out/times"
say "summary"
printf '%-28s %s\n' \
    "device" "$device_text" \
    "ranks" "$ranks" \
    "steps per second" "$n_speed with $ranks rank$([ "$ranks" -eq 1 ] || echo s), $one_speed with one process" \
    "gained by the ranks" "$gained" \
    "effective batch" "$effective_batch" \
    "check" "$checked" \
    "test accuracy" "$accuracy" \
    "averaging" "${averaged:-none}" \
    "parameters" "$identical" \
    "digits_plain by a plan" "$by_plan" \
    "compared while training" "${compared:-never}" \
    "largest difference to serial" "$difference, max|a - b| / max|b| of each tensor$note" \
    "time" "$(time_taken)"
for failure in "${failures[@]}"; do
    printf 'run.sh: FAILED: %s\n' "$failure" >&2
done
[ ${#failures[@]} -eq 0 ]
printf '\nSuccess: all of these comparisons hold. Your own program: annotate it (docs/annotations.md), then: build/bin/ddprun check ./train\n'
