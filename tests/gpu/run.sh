#!/usr/bin/env bash
# run.sh - the end-to-end tests on a real GPU, driver and NCCL: the same scripts, on programs that nvcc has built (programs.sh), with all ranks on one GPU where
# there is only one. BUILD is a build of this checkout, or that of a bundle (bundle.sh), which needs no compiler and no network.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/gpu/libraries.sh"
all_scripts=(equality libraries wire types habits graphs overlap faults inert tables)

usage() {
    cat <<'END'
Usage: bash tests/gpu/run.sh [options] [BUILD [SCRIPT...]]
Runs the end-to-end tests on the GPUs of this machine. BUILD is a built folder (default: build) or BUNDLE/build, SCRIPT one or more of
equality libraries wire types habits graphs overlap faults inert tables (default: all). `tables` compares what the shim knows of
the calls of cuBLAS and cuBLASLt with what NVIDIA's libraries touch. Where ranks share a GPU, the script starts an MPS of its own and
ends it; `faults`, which kills ranks, runs without.

  --no-mps     no MPS: ranks that share a GPU take turns
  --rehearse   the same with the stand-in, to try out this script
  --help       print this
END
}

fail() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 2
}

rehearse=0
with_mps=1
while [ $# -gt 0 ]; do
    case $1 in
    --rehearse) rehearse=1 ;;
    --no-mps) with_mps=0 ;;
    --help)
        usage
        exit 0
        ;;
    -*) fail "$1: unknown option; --help lists them" ;;
    *) break ;;
    esac
    shift
done
build=${1:-$root/build}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] && scripts=("$@") || scripts=("${all_scripts[@]}")
for script in "${scripts[@]}"; do
    [[ " ${all_scripts[*]} " == *" $script "* ]] || fail "$script: unknown script; --help lists them"
done

gpus=$(gpu_count)
if [ "$rehearse" -eq 0 ] && [ "$gpus" -eq 0 ]; then
    echo "skipped: no NVIDIA GPU"
    exit 77
fi
[ -x "$build/bin/ddprun" ] ||
    fail "no ddprun in $build/bin: build it (cmake/setup.sh installs what that needs), or take a bundle of another machine (tests/gpu/bundle.sh) and name BUNDLE/build"
build=$(cd "$build" && pwd)
bundle=${build%/*}
gpu_cuda_of "$build"
[ -d "$bundle/debian/fallback" ] || bundle=
if [ "$rehearse" -eq 0 ] || [ -n "$bundle" ]; then
    gpu_libraries_find "${gpu_library_names[@]}" || exit 2
    export LD_LIBRARY_PATH=$gpu_library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
[ -z "$bundle" ] || gpu_bundle_libraries "$bundle"

# A folder that looks like a build: the scripts find GPU programs in it, and a ddprun that shares a GPU.
view=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-gpu-XXXXXX")
trap 'gpu_mps_stop; rm -rf "$view"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$view/bin" "$view/tests/trainers" "$view/samples"
ln -s "$build/lib" "$view/lib"
ln -s "$build/samples/compare" "$view/samples/compare"
ln -s "$build/tests/comm" "$view/tests/comm"
cp "$build/CMakeCache.txt" "$view/"

# show NAME FOLDER PLACE...: the program of the first place that has it
show() {
    local place
    for place in "${@:3}"; do
        [ -x "$place/$1" ] || continue
        ln -s "$place/$1" "$view/$2/"
        return
    done
    fail "no program $1 in ${*:3}"
}

if [ "$rehearse" -eq 1 ]; then
    ln -s "$build/bin/ddprun" "$view/bin/ddprun"
    places=("$build/tests/trainers" "$build/samples" "$build/gpu")
    own_cublas=$build/tests/trainers/libraries_static
else
    [ -n "$bundle" ] || bash "$root/tests/gpu/programs.sh" "$build" || exit 2
    places=("$build/gpu")
    own_cublas=$build/gpu/libraries_own_cublas
    printf '#!/bin/sh\nexec "%s" --device gpu --share-gpu --nccl "%s" "$@"\n' "$build/bin/ddprun" \
        "${gpu_library[libnccl.so.2]}" >"$view/bin/ddprun"
    chmod +x "$view/bin/ddprun"
    # Read by lib.sh: a start takes seconds, and other kernels sum in another order.
    export DDPRUN_TEST_DEVICE=gpu DDPRUN_TEST_CLOSE=1e-4 DDPRUN_TEST_PATIENCE=30
fi
for program in digits digits_plain; do
    show "$program" samples "${places[@]}"
done
for program in ladder ladder_static habits graphs libraries values halves types_legacy types_per_thread; do
    show "$program" tests/trainers "${places[@]}"
done
# cuBLAS inside the program has some hundred MB: it is in no bundle, and only where the toolkit has libcublas_static.a.
if [ -x "$own_cublas" ]; then
    ln -s "$own_cublas" "$view/tests/trainers/libraries_static"
else
    echo 'not run: a program with cuBLAS inside (no libcublas_static.a, or a bundle)'
fi

# The build's programs look beside the stand-in's libraries, unless another place is given for all of NVIDIA's.
tables() {
    local program status=0 programs=("$build"/tests/interpose/libraries/test_library_*extents)
    [ -x "${programs[0]}" ] || fail "no test_library_extents in $build/tests/interpose/libraries"
    for program in "${programs[@]}"; do
        DDPRUN_TEST_SHIM=$build/lib/libddprun.so DDPRUN_TEST_RECORDER=$build/tests/interpose/libraries/librecorder.so CK_FORK=no \
            timeout -k 2 300 "$program" </dev/null || status=1
    done
    return "$status"
}

[ "$rehearse" -eq 0 ] && [ "$gpus" -lt 4 ] || with_mps=0
failed=0
for script in "${scripts[@]}"; do
    printf '==== %s\n' "$script"
    case $script in
    tables) tables || failed=1 ;;
    *)
        [ "$script" != faults ] || gpu_mps_stop
        [ "$script" = faults ] || [ "$with_mps" -eq 0 ] || [ "$gpu_mps" -eq 1 ] ||
            gpu_mps_start "$view" "$view/tests/trainers/ladder" --steps 1 || with_mps=0
        bash "$root/tests/end_to_end/$script.sh" "$view" || failed=1
        ;;
    esac
done
exit "$failed"
