#!/usr/bin/env bash
# run.sh - the end-to-end tests on a real GPU, driver and NCCL: the same scripts, on programs that nvcc has built, with all
# ranks on one GPU where there is only one. Works on any machine with an NVIDIA GPU and the build's requirements.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
all_scripts=(equality libraries wire types habits graphs overlap faults inert tables)

usage() {
    cat <<'END'
Usage: bash tests/gpu/run.sh [options] [BUILD [SCRIPT...]]
Runs the end-to-end tests on the GPUs of this machine. BUILD is a built folder (default: build), SCRIPT one or more of
equality libraries wire types habits graphs overlap faults inert tables (default: all). `tables` compares what the shim knows of
the calls of cuBLAS and cuBLASLt with what NVIDIA's libraries touch.

  --rehearse   the same with the stand-in, to try out this script
  --help       print this
END
}

rehearse=0
while [ $# -gt 0 ]; do
    case $1 in
    --rehearse) rehearse=1 ;;
    --help)
        usage
        exit 0
        ;;
    -*)
        printf 'run.sh: %s: unknown option; --help lists them\n' "$1" >&2
        exit 2
        ;;
    *) break ;;
    esac
    shift
done
build=$(cd "${1:-$root/build}" && pwd)
[ $# -eq 0 ] || shift
[ $# -gt 0 ] && scripts=("$@") || scripts=("${all_scripts[@]}")

if [ "$rehearse" -eq 0 ] && ! { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }; then
    echo "skipped: no NVIDIA GPU"
    exit 77
fi

# found NAME: what the build has found, as cmake/Cuda.cmake prints it.
found() {
    cmake -P "$root/cmake/Cuda.cmake" 2>&1 | sed -n "s/^$1=//p" | head -n 1
}

# A folder that looks like a build: the scripts find GPU programs in it, and a ddprun that shares a GPU.
view=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-gpu-XXXXXX")
trap 'rm -rf "$view"' EXIT
mkdir -p "$view/bin" "$view/tests" "$view/tests/trainers" "$view/samples"
ln -s "$build/lib" "$view/lib"
ln -s "$build/samples/compare" "$view/samples/compare"
cp "$build/CMakeCache.txt" "$view/"

if [ "$rehearse" -eq 1 ]; then
    ln -s "$build/bin/ddprun" "$view/bin/ddprun"
    ln -s "$build/samples/digits" "$build/samples/digits_plain" "$view/samples/"
    for program in ladder ladder_static habits graphs libraries values types_legacy types_per_thread; do
        ln -s "$build/tests/trainers/$program" "$view/tests/trainers/"
    done
else
    nccl=$(found NCCL_LIBRARY)
    printf '#!/bin/sh\nexec "%s" --device gpu --share-gpu %s "$@"\n' "$build/bin/ddprun" \
        "${nccl:+--nccl \"$nccl\"}" >"$view/bin/ddprun"
    chmod +x "$view/bin/ddprun"
    ln -s "$build/samples/gpu/digits" "$build/samples/gpu/digits_plain" "$view/samples/"

    # nvcc_build OUTPUT OPTIONS...: one trainer of the tests.
    nvcc=$(found NVCC) libraries=$(found CUDA_LIBRARY_DIR)
    nvcc_build() {
        local output=$1
        shift
        "$nvcc" -O2 -g -D_GNU_SOURCE -I"$root/samples" -I"$root/interpose/include" -L"$libraries" \
            -Xlinker -rpath -Xlinker "$libraries" "$@" -o "$view/tests/trainers/$output"
    }
    cd "$root/tests/trainers"
    nvcc_build ladder -cudart shared ladder.cu ../../samples/common/parameter_file.c
    nvcc_build ladder_static -cudart static ladder.cu ../../samples/common/parameter_file.c
    nvcc_build habits -cudart static habits.cu -lcuda -L"$libraries/stubs"
    nvcc_build graphs -cudart static graphs.cu -lcuda -L"$libraries/stubs"
    nvcc_build libraries -cudart shared libraries.cu ../../samples/common/parameter_file.c -lcublas -lcublasLt
    nvcc_build types_legacy -cudart shared types.c
    nvcc_build values -cudart shared values.c -lm
    nvcc_build types_per_thread -cudart static -DCUDA_API_PER_THREAD_DEFAULT_STREAM types.c
fi

# The build's programs look beside the stand-in's libraries, unless they are told another place for all of NVIDIA's.
tables() {
    local program status=0 path=()
    if [ "$rehearse" -eq 0 ]; then
        driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => //p' | head -n 1)
        path=(env "LD_LIBRARY_PATH=$libraries:$(dirname "$driver")")
    fi
    for program in "$build"/tests/interpose/libraries/test_library_*extents; do
        "${path[@]}" timeout -k 2 300 "$program" </dev/null || status=1
    done
    return "$status"
}

failed=0
for script in "${scripts[@]}"; do
    printf '==== %s\n' "$script"
    if [ "$script" = tables ]; then
        tables || failed=1
    else
        bash "$root/tests/end_to_end/$script.sh" "$view" || failed=1
    fi
done
exit "$failed"
