#!/usr/bin/env bash
# first_build.sh [JOBS] - what samples/run.sh builds, as a share of the whole build: commands, and CPU time of all processes. Builds
# both from nothing, the whole after the first, in a temporary folder and without nvcc. Run by people; takes minutes. Exits 1 if a
# share is above 40 %.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
jobs=${1:-$(nproc)}
most=40 # per cent
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-first-build.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A toolkit of headers alone, as on a machine without a GPU.
mkdir "$work/cuda"
ln -s "$(cmake -P "$root/cmake/Cuda.cmake" | sed -n 's/^CUDA_INCLUDE_DIR=//p')" "$work/cuda/include"
export CUDA_HOME=$work/cuda

# Sets cpu_seconds: of all that this script has waited for. `times` counts for the shell that runs it, so not in a subshell.
read_cpu() {
    times >"$work/times"
    cpu_seconds=$(awk 'NR == 2 { for (i = 1; i <= 2; ++i) { split($i, part, /[ms]/); sum += 60 * part[1] + part[2] } printf "%.2f", sum }' \
        "$work/times")
}

# build TARGET: sets commands, those that Ninja ran, and seconds of CPU.
build() {
    local before
    read_cpu
    before=$cpu_seconds
    ninja -C "$work/build" -j "$jobs" "$1" </dev/null >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 1
    }
    commands=$(sed -nE 's/^\[[0-9]+\/([0-9]+)\] .*/\1/p' "$work/log" | tail -n 1)
    read_cpu
    seconds=$(awk -v before="$before" -v after="$cpu_seconds" 'BEGIN { printf "%.1f", after - before }')
}

cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
read_cpu
printf 'configuration  %44s s of CPU\n' "$cpu_seconds"
build sample_run
first_commands=$commands first_seconds=$seconds
printf 'samples/run.sh %10s commands %24s s of CPU\n' "$commands" "$seconds"
build all
awk -v n="$first_commands" -v more="$commands" -v s="$first_seconds" -v rest="$seconds" -v most="$most" 'BEGIN {
    printf "the whole build %9d commands %24.1f s of CPU\n", n + more, s + rest
    a = 100 * n / (n + more); b = 100 * s / (s + rest)
    printf "share           %9.1f %% %31.1f %% (at most %d %%)\n", a, b, most
    exit a > most || b > most }'
