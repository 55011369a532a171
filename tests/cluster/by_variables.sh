#!/usr/bin/env bash
# by_variables.sh -n N COMMAND... - starts N processes as torchrun and Kubeflow do, which know each other by RANK, WORLD_SIZE,
# MASTER_ADDR and MASTER_PORT, and waits for all. Exit code: that of the first rank that failed, or 0. Used by address.sh.
set -u
[ "$1" = -n ] || exit 99
count=$2
shift 2
port=${BY_PORT:-$(python3 "$(dirname "$0")/free_port.py")} || exit 99
pids=() code=0
trap 'kill "${pids[@]}" 2>/dev/null' TERM INT
for ((rank = 0; rank < count; rank++)); do
    RANK=$rank WORLD_SIZE=$count MASTER_ADDR=${BY_ADDRESS:-localhost} MASTER_PORT=$port "$@" &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid"
    own=$?
    while [ "$own" -gt 128 ] && kill -0 "$pid" 2>/dev/null; do # a signal came to this script
        wait "$pid"
        own=$?
    done
    [ "$code" -ne 0 ] || code=$own
done
exit "$code"
