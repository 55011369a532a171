#!/usr/bin/env bash
# stops.sh BUILD CUDA_INCLUDE_DIR - DDP_ANY: a trainer is asked to stop by SIGTERM, at a random moment, on one rank or on all. All ranks leave at the same
# step, the checkpoint is whole, and the run that resumes ends as one that was not interrupted. Ranks whose calls differ, and calls that
# cannot be right, end the job.
source "$(dirname "$0")/lib.sh"
stops=$build/tests/trainers/stops
saved=$work/checkpoint
steps=$((sanitized ? 20 : 60))

# left RANKS: the step after which all ranks have left; nothing if they have not left at one step.
left() {
    sed -n 's/^\(\[[0-9]*\] \)\{0,1\}rank [0-9]* leaves after step //p' "$work/stdout" | sort | uniq -c | awk -v ranks="$1" '$1 == ranks { print $2 }'
}

# whole RANKS PASSES: prints the file of a run that is not interrupted.
whole() {
    local file=$work/whole-$1-$2
    [ -e "$file" ] || run "$ddprun" -n "$1" --device softgpu "$stops" --steps "$steps" --passes "$2" --save "$file"
    printf '%s' "$file"
}

# stopped NAME RANKS PASSES OPTIONS...: the run that is asked to stop, and the one that resumes.
stopped() {
    local name=$1 ranks=$2 passes=$3 step
    rm -f "$saved"
    works "$name" "$ddprun" -n "$ranks" --device softgpu "$stops" --steps "$steps" --passes "$passes" --save "$saved" "${@:4}"
    step=$(left "$ranks")
    check "$name: all ranks leave at one step" [ -n "$step" ]
    check "$name: no half of a checkpoint is left" [ ! -e "$saved.next" ]
    works "$name: resumed after step ${step:-?}" "$ddprun" -n "$ranks" --device softgpu "$stops" --steps "$steps" --passes "$passes" --save "$saved"
    check "$name: all ranks end" [ "$(left "$ranks")" = "$steps" ]
    check "$name: the same weights as without the interruption" cmp "$saved" "$(whole "$ranks" "$passes")"
}

for ((seed = 1; seed <= 20; ++seed)); do
    all=$((seed % 3 == 0)) ranks=$((seed % 2 == 0 ? 2 : 4)) passes=$((seed % 5 == 0 ? 3 : 1))
    stopped "seed $seed, $ranks ranks, $passes passes, $([ "$all" = 1 ] && echo all are reached || echo one is reached)" "$ranks" "$passes" --seed "$seed" --all "$all"
done
stopped "one rank" 1 1 --seed 5

# Without ddprun: the same program.
rm -f "$saved"
alone=(env "LD_LIBRARY_PATH=$build/lib/softgpu" "$stops" --steps "$steps" --save "$saved")
works "alone" "${alone[@]}" --seed 7
check "alone: it leaves" [ -n "$(left 1)" ]
works "alone: resumed" "${alone[@]}"
check "alone: the same weights as one rank" cmp "$saved" "$(whole 1 1)"

# The program of docs/recipes.md, with a training of its own, is asked by the signal that ddprun passes on.
recipe=$(cd "$(dirname "$0")/../.." && pwd)
awk '/^## / { inside = $0 == "## Stop at the same step" } inside && /^```c$/ { code = 1; next } /^```/ { code = 0 } inside && code' \
    "$recipe/docs/recipes.md" >"$work/recipe.c"
check "the recipe has a program" grep -q DDP_ANY "$work/recipe.c"
check "the recipe compiles" gcc -Wall -Wextra -Werror -D_GNU_SOURCE -I "$recipe/interpose/include" -I "$2" -include "$recipe/tests/trainers/recipe_training.h" \
    -o "$work/recipe" "$work/recipe.c" -L "$build/lib/softgpu" -lcudart
mkdir "$work/there" && cd "$work/there" || exit 1
"$ddprun" -n 2 --device softgpu "$work/recipe" </dev/null >"$work/stdout" 2>"$work/stderr" &
job=$!
within 60 grep -q 'step 20$' "$work/stdout"
kill -USR1 "$job"
wait "$job"
check "the recipe: exit code" [ $? -eq 0 ]
check "the recipe: rank 0 has saved" [ -e model.ckpt ]
check "the recipe: both have left at that step" [ "$(left 2)" = "$(head -n 1 model.ckpt)" ]
check "the recipe: no half of a checkpoint is left" [ ! -e model.ckpt.next ]

finish
