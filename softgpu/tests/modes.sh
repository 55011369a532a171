#!/bin/bash
# modes.sh [--parts] PROGRAM... - every test program gives the same right answers when the stand-in reorders what CUDA allows to be
# reordered (2 seeds; 20 with TESTS_SOAK=1), in strict mode, with one worker and with several, and when it is unruly. With --parts each run goes through
# another part of the program's cases (TEST_PART, tests/cublas/device.h), and all runs together through all cases.
set -u
source "$(dirname "${BASH_SOURCE[0]}")/lib/patience.sh"
parts=
if [ "$1" = --parts ]; then
    parts=yes
    shift
fi
modes=(SOFTGPU_STRICT=1 SOFTGPU_WORKERS=1 SOFTGPU_WORKERS=3 SOFTGPU_UNRULY=1)
seeds=2
[ "$tests_soak" != 1 ] || seeds=20
for seed in $(seq "$seeds"); do
    modes+=("SOFTGPU_CHAOS=$seed")
done
failures=0
runs=0
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
for program; do
    for i in "${!modes[@]}"; do
        setting=("${modes[$i]}" CK_FORK=no ${parts:+"TEST_PART=$i/${#modes[@]}"})
        runs=$((runs + 1))
        timeout -k 1 "$(patient 120)" env "${setting[@]}" "$program" >out 2>&1 </dev/null && continue
        echo "FAILED: ${setting[*]} $program"
        sed 's/^/    /' out | tail -5
        failures=$((failures + 1))
    done
done
echo "$runs runs, $failures failures"
[ $failures -eq 0 ] && [ $runs -gt 0 ]
