#!/usr/bin/env bash
# alone.sh - a copy of the folder softgpu/ under another name is a project: CMake configures it, and its reader of C++ text is built and
# tested; with DDPRUN_SOAK=1 all of it. A project that has it as a subdirectory builds it, too, without its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/softgpu-alone.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
# The headers, where cmake/setup.sh has put them.
headers=$(cmake -P cmake/Cuda.cmake | sed -n 's/^CUDA_INCLUDE_DIR=//p')
nccl=$(cmake -P cmake/Cuda.cmake | sed -n 's/^NCCL_INCLUDE_DIR=//p')
export CUDA_HOME=${headers%/include} NCCL_HOME=${nccl%/include}
cp -r softgpu "$work/copy"
cd "$work"

run() {
    timeout -k 1 "$(patient 200 3000)" "$@" >"$work/out" 2>&1 <"/dev/null"
}
check "a copy of the folder is configured" run cmake -S copy -B build -G Ninja
check "it names nothing of the project around it" [ -z "$(grep -rlF "$OLDPWD/softgpu" build --include=build.ninja)" ]
targets=(test_text)
[ "${DDPRUN_SOAK:-0}" != 1 ] || targets=(all)
check "it is built" run cmake --build build --target "${targets[@]}"
tests=(-R '^(unit/test_text|softgpu/table)$')
[ "${DDPRUN_SOAK:-0}" != 1 ] || tests=(-LE soak)
check "its tests pass" run env -u DDPRUN_SOAK ctest --test-dir build --output-on-failure "${tests[@]}"
check "they are there" grep -qE '100% tests passed' out

mkdir around
cat >around/CMakeLists.txt <<'END_CMAKE'
cmake_minimum_required(VERSION 3.22)
project(around C)
add_subdirectory(../copy softgpu)
END_CMAKE
check "a project that has it as a subdirectory is configured" run cmake -S around -B inside -G Ninja
check "and builds what it takes of it" run cmake --build inside --target softgpu_text
check "without its tests" [ -z "$(grep -o 'test_text' inside/build.ninja | head -n 1)" ]
finish
