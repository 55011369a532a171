#!/usr/bin/env bash
# mutant.sh BUILD - files.sh notices a library that lets writes through to the user's files (tests/lib/mutant.h).
set -uo pipefail
build=$(cd "${1:?usage: mutant.sh BUILD}" && pwd)
export FILES_LIBRARY=$build/tests/tools/sandbox/libfiles_mutants.so
if ! output=$(bash "$(dirname "$0")/files.sh" "$build" 2>&1); then
    printf '%s\n' "$output"
    echo 'not ok - without a defect the library passes'
    exit 1
fi
if output=$(DDPRUN_MUTANT=FILES_WRITTEN_THROUGH bash "$(dirname "$0")/files.sh" "$build" 2>&1); then
    echo 'not ok - FILES_WRITTEN_THROUGH is noticed'
    exit 1
fi
printf 'ok - FILES_WRITTEN_THROUGH is noticed: %s\n' "$(grep -m 1 '^not ok' <<<"$output")"
