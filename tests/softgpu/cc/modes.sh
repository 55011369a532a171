#!/bin/bash
# modes.sh PROGRAM... - every test program of this folder gives the same right answers when the stand-in reorders what CUDA allows to be
# reordered (20 seeds), in strict mode, and with one worker and with several.
set -u
failures=0
runs=0
attempt() { # SETTING... PROGRAM
    runs=$((runs + 1))
    timeout -k 1 60 env "$@" >/dev/null 2>err.$$ </dev/null && return
    echo "FAILED: $*"
    sed 's/^/    /' err.$$ | head -5
    failures=$((failures + 1))
}
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
for program; do
    for seed in $(seq 20); do
        attempt SOFTGPU_CHAOS="$seed" "$program"
    done
    attempt SOFTGPU_STRICT=1 "$program"
    attempt SOFTGPU_WORKERS=1 "$program"
    attempt SOFTGPU_WORKERS=3 "$program"
done
echo "$runs runs, $failures failures"
[ $failures -eq 0 ] && [ $runs -gt 0 ]
