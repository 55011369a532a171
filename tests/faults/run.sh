#!/usr/bin/env bash
# run.sh BUILD [--runs N] [--seed S] [--first N] [--only KIND] [--pause SECONDS] [--verbose] - the fault campaign (campaign.c): 20 runs,
# or as many as are asked for. With DDPRUN_SOAK=1 also a rank that spends 90 s in host code, as for a checkpoint.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../end_to_end/lib.sh"
shift
campaign() {
    "${runtime[@]}" "$build/tests/faults/campaign" "$@" "$build" "$work" </dev/null
}
if [ $# -eq 0 ]; then
    campaign --verbose || exit 1
    [ "${DDPRUN_SOAK:-0}" = 0 ] || campaign --pause 90 --runs 1 --verbose
else
    campaign "$@"
fi
