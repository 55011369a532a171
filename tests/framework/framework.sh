#!/usr/bin/env bash
# framework.sh BUILD - a framework with its own build, layers as templates, a loader thread, conditional clipping and switches for rank and count trains as
# docs/frameworks.md says. make and CMake build it with the toolkit's folder alone. A loop over its parameters annotates it. N ranks end with the parameters of
# one process that gets the whole batch. `ddprun check` says "equal", and reports a forgotten rank switch. `ddprun scout` finds the annotated tensors.
source "$(dirname "$0")/../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
toolkit=$build/lib/softgpu/toolkit
for tool in make cmake g++; do
    command -v $tool >/dev/null || skip "no $tool"
done
unset NVCC_CCBIN NVCC_PREPEND_FLAGS LIBRARY_PATH CUDACXX CUDAARCHS CUDAFLAGS CXXFLAGS LDFLAGS CUDA_PATH CUDA_HOME MAKEFLAGS
cp -r "$here/small" "$work/small"
cd "$work/small" || exit 1
export NVCC_APPEND_FLAGS=-G # optimising takes longer than the runs
include=$here/../../interpose/include
limit=300

# ---- the build: nothing is said but where the toolkit is ----
works "make with CUDA_DIR" make CUDA_DIR="$toolkit" DDPRUN_INCLUDE="$include" CXXFLAGS=-O0

configured() { # FOLDER OPTION...
    works "CMake finds CUDA: $*" cmake -S . -B "$@" -DCUDA_TOOLKIT_ROOT_DIR="$toolkit" -DDDPRUN_INCLUDE="$include" -DCMAKE_CXX_FLAGS=-O0
}
configured by_language -DCMAKE_DISABLE_FIND_PACKAGE_CUDA=ON
check "a CMake without FindCUDA has its CUDA language" grep -qF "CUDA by CMake's language" "$work/stdout"
built=by_language
if cmake --help-module FindCUDA >/dev/null 2>&1; then
    configured by_module
    check "CMake's FindCUDA takes CUDA_TOOLKIT_ROOT_DIR" grep -qF "CUDA 13.0 by FindCUDA" "$work/stdout"
    built=by_module
fi
works "CMake builds it" cmake --build $built
run ./small --steps 5
mv "$work/stdout" "$work/made"
run $built/small --steps 5
check "it trains as make's does" cmp "$work/stdout" "$work/made"

# ---- N ranks train what one process trains ----
# close A B LIMIT: the same names, and values that differ by at most LIMIT.
close() {
    paste -d ' ' "$1" "$2" | awk -v limit="$3" '
        NF != 4 || $1 != $3 { exit 1 }
        { d = $2 - $4; if (d < 0) d = -d; if (!(d <= limit)) exit 1; n++ }
        END { exit n == 0 }'
}
# ranks N OPTION...: the command of N ranks, each with its part of a batch of 30.
ranks() {
    local n=$1
    shift
    command=(./small --batch $((30 / n)) --rank "{rank}" --count "{world_size}" "$@")
}
# as_alone LIMIT RANKS OPTION...
as_alone() {
    local limit_of_type=$1 n
    shift
    run ./small --batch 30 "${@:2}" --save "$work/alone"
    check "one process clips some steps and not all, ${*:2}" awk '{ exit !($1 == 40 && 0 < $3 && $3 < 40) }' "$work/stdout"
    sed -i '/mean/d' "$work/alone" # of its own batches
    for n in $1; do
        in_turn 3 || continue
        ranks "$n" "${@:2}" --save "$work/rank-{rank}"
        rm -f "$work"/rank-*
        works "$n ranks, ${*:2}" "$ddprun" -n "$n" --subst --device "$device" "${command[@]}"
        [ -s "$work/rank-0" ] || continue
        overlapped "$n ranks, ${*:2}"
        same_on_all_ranks "$n ranks, ${*:2}" "$n"
        sed -i '/mean/d' "$work/rank-0"
        check "$n ranks, ${*:2}: as one process that sees the whole batch" close "$work/rank-0" "$work/alone" "$limit_of_type"
    done
}
as_alone 1e-6 "2 3 5" --type float
as_alone 1e-14 "2 3 5" --type double
as_alone 1e-6 3 --batch-means

# ---- ddprun check ----
# checks NAME CODES WORDS COMMAND...: of `ddprun check` with a batch of 30 for one rank.
checks() {
    local name=$1 wanted=$2 words=$3
    shift 3
    run "$ddprun" check --subst --device "$device" --alone "--batch 30" "$@"
    check "check, $name: exit code ${wanted/ / or }" [ "${wanted/"$code"/}" != "$wanted" ]
    check "check, $name: $words" grep -qF -- "$words" "$work/stdout"
}
for n in 2 3; do
    ranks $n
    checks "$n ranks" 0 "equal: $n ranks compute what one process computes" -n $n "${command[@]}"
    check "check, $n ranks: no annotation is missed" [ -z "$(grep '^missing:' "$work/stdout")" ]
done
# Which copy is the first that differs depends on how far ahead the loader's thread copies: its number, or what is in it.
checks "a rank's switch is forgotten" "1 3" "all ranks" -n 2 ./small --batch 15 --count 2
ranks 2 --batch-means
run "$ddprun" check -n 2 --subst --device "$device" --alone "--batch 30 --batch-means" "${command[@]}"
differing=$(grep -E '^(parameter|gradient|buffer|state|mean) ' "$work/stdout" | grep -v ' equal$')
check "check, statistics of the batch: they differ, and nothing else does" grep -q '^buffer 3 ' <<<"$differing"
check "check, statistics of the batch: one row" [ "$(wc -l <<<"$differing")" -eq 1 ]

# ---- ddprun scout ----
works "scout" "$ddprun" scout -v ./small
for row in "5 parameter " "5 gradient " "5 optimizer state "; do
    check "scout: $row" [ "$(grep -c "^  ${row#* }" "$work/stdout")" -eq "${row%% *}" ]
done
check "scout: no annotation is missed" [ -z "$(grep '^missing:' "$work/stdout")" ]
finish
