#!/usr/bin/env bash
# launch.sh BUILD - what a user of ddprun sees of a job's start, course and end: programs that only ask who they are, and the
# benchmark of starting, in its shortest form.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/lib.sh"

# A program that asks for its rank, prints a help and ends has left nothing unaveraged: no GPU was used.
run "$ddprun" -n 3 --device softgpu "$build/bench/launch_rank"
succeeded "ranks that join and leave"
check "and are not said to have trained" grep -q 'no rank made a step' "$work/stderr"

if [ "$sanitized" = 0 ]; then
    limit=60 run "$build/bench/launch" --json --runs 1 --ranks 2 --idle 0.1
    succeeded "bench/launch"
    check "bench/launch prints figures" grep -q '"name":"start to end, 2 ranks.*"holds":' "$work/stdout"
fi

finish
