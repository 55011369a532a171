#!/usr/bin/env bash
# build.sh PRESET - configures and builds one preset of CMakePresets.json, with progress. Called by samples/run.sh and
# tests/run.sh. The configuration's output is shown only if it fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:?usage: build.sh PRESET}
case $preset in
release) folder=$root/build ;;
*) folder=$root/build/$preset ;;
esac

mkdir -p "$folder"
# A tree that was configured by hand keeps its generator.
generator=()
[ -e "$folder/CMakeCache.txt" ] || generator=(-G Ninja)

printf '== configuring %s\n' "$preset"
if ! (cd "$root" && cmake --preset "$preset" "${generator[@]}") </dev/null >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    printf 'build: the configuration of preset %s failed\n' "$preset" >&2
    exit 1
fi
printf '== building %s\n' "$preset"
(cd "$root" && cmake --build --preset "$preset") </dev/null
