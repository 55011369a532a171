#!/usr/bin/env bash
# annotations.sh BUILD - of both samples, whichever annotation is taken away, halved, or added where nothing is to be annotated is named
# by `ddprun scout`, and nothing else (annotations.c); judged against one recording of each.
source "$(dirname "$0")/../../end_to_end/lib.sh"
text=$(dirname "$data")/shakespeare.txt

# judged PROGRAM...: records the program, and changes its annotations.
judged() {
    local name
    name=$(basename "$1")
    DDPRUN_TEST_RECORDING=$work/$name works "$name: recorded" "$ddprun" -q scout "$@"
    "$build/tests/tools/scout/annotations" "$work/$name" >"$work/changes" || failures=$((failures + 1))
    cat "$work/changes"
}

judged "$build/samples/digits" --data "$data" --steps 24 --quiet
judged "$build/samples/chargpt" --data "$text" --layers 1 --width 16 --heads 2 --context 8 --batch 2 --steps 24 --warmup 0 \
    --eval-every 1000 --eval-batches 1 --quiet
finish
