#!/usr/bin/env bash
# first_build.sh [JOBS] - what samples/run.sh builds, and the product, as shares of product and tests: commands, and CPU time of all
# processes. Each is built from nothing, in a temporary folder, without nvcc and without a compiler cache. Run by people; takes
# minutes. Exits 1 if a share is too large.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
jobs=${1:-$(nproc)}
most_product=25 # per cent
most_samples=40
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-first-build.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
export CCACHE_DISABLE=1 # where it stands in the compiler's place

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

# take COMMAND...: sets seconds, of CPU.
take() {
    local before
    read_cpu
    before=$cpu_seconds
    "$@" </dev/null >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 1
    }
    read_cpu
    seconds=$(awk -v before="$before" -v after="$cpu_seconds" 'BEGIN { printf "%.1f", after - before }')
}

# build FOLDER TARGET: sets commands, those that Ninja ran, and seconds.
build() {
    take ninja -C "$work/$1" -j "$jobs" "$2"
    commands=$(sed -nE 's/^\[[0-9]+\/([0-9]+)\] .*/\1/p' "$work/log" | tail -n 1)
}

line() { # NAME COMMANDS SECONDS [SHARE]
    printf '%-18s %6s commands %8.1f s of CPU %s\n' "$@"
}

for folder in first whole; do
    take cmake -S "$root" -B "$work/$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo
done
line configuration 0 "$seconds" ''
build first sample_run
samples_commands=$commands samples_seconds=$seconds
build whole all
product_commands=$commands product_seconds=$seconds
build whole tests
whole_commands=$((product_commands + commands))
whole_seconds=$(awk -v product="$product_seconds" -v more="$seconds" 'BEGIN { print product + more }')
too_large=0
# share NAME COMMANDS SECONDS MOST
share() {
    local share
    share=$(awk -v part="$3" -v whole="$whole_seconds" 'BEGIN { printf "%.1f", 100 * part / whole }')
    line "$1" "$2" "$3" "$share % of the last (at most $4 %)"
    awk -v share="$share" -v most="$4" 'BEGIN { exit share > most }' || too_large=1
}
share product "$product_commands" "$product_seconds" "$most_product"
share samples/run.sh "$samples_commands" "$samples_seconds" "$most_samples"
line 'product and tests' "$whole_commands" "$whole_seconds" ''
exit "$too_large"
