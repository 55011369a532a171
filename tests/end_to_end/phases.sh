#!/usr/bin/env bash
# phases.sh BUILD - a trace tells apart what the program does between two steps: a loader, copies, forward; an evaluation, a checkpoint.
# The trainer (phases.cu) sleeps in each of them: phases.py holds the trace's times to what a sleep takes at least.
source "$(dirname "$0")/lib.sh"
held_to=$(dirname "$0")/phases.py
phases=$build/tests/trainers/phases
command -v python3 >/dev/null || skip "there is no python3 here, which looks at traces"

# held NAME KIND OPTIONS...: the trace of a run with these options of the trainer, and its page.
held() {
    rm -rf "$work/trace"
    works "$1: ends well" "$ddprun" -n 2 --trace "$work/trace" "$phases" "${@:3}"
    works "$1: a page is made" "$ddprun" report "$work/trace" -o "$work/page.html"
    check "$1: each part takes what it takes at least" python3 "$held_to" "$2" "$work/trace" "$work/page.html"
}
held "evaluations and checkpoints" parts --steps 80 --every 20
held "data on the device" resident --steps 80 --every 20 --no-copy 1
held "batches that another thread copies" thread --steps 40 --thread 1
held "a rank whose loader takes longer" late --steps 60 --late-rank 1 --late-us 20000
finish
