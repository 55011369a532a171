#!/usr/bin/env bash
# build.sh PRESET [TARGET...] - configures one preset of CMakePresets.json and builds it, or only the targets, with progress. Called
# by samples/run.sh and tests/run.sh. The configuration's output is shown only if it fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:?usage: build.sh PRESET [TARGET...]}
shift
case $preset in
release) folder=$root/build ;;
*) folder=$root/build/$preset ;;
esac
targets=()
[ $# -eq 0 ] || targets=(--target "$@")

mkdir -p "$folder"
# A tree that was configured by hand keeps its generator.
generator=()
[ -e "$folder/CMakeCache.txt" ] || generator=(-G Ninja)

# Ninja rewrites its line of progress on a terminal. Elsewhere: that line after each tenth of the way, and whatever else is said.
some_progress() {
    awk '
        /^\[[0-9]+\/[0-9]+\] / { split(substr($1, 2), at, "/"); share = int(10 * at[1] / at[2]) }
        /^\[ *[0-9]+%\] / { share = int(substr($0, 2) / 10) }
        /^\[ *[0-9]+(\/[0-9]+|%)\] / && share <= shown { next }
        { shown = share; print; fflush() }'
}

printf '== configuring %s\n' "$preset"
if ! (cd "$root" && cmake --preset "$preset" "${generator[@]}") </dev/null >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    printf 'build: the configuration of preset %s failed\n' "$preset" >&2
    exit 1
fi
printf '== building %s\n' "$preset${targets:+: $*}"
cd "$root"
if [ -t 1 ]; then
    cmake --build --preset "$preset" "${targets[@]}" </dev/null
else
    cmake --build --preset "$preset" "${targets[@]}" </dev/null 2>&1 | some_progress
fi
