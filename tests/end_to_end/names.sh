#!/usr/bin/env bash
# names.sh BUILD - a trainer may have functions of its own under the names of those that ddprun's libraries use (json-c, libevent,
# PMIx, xxHash, libunwind, liblzma): in the program itself or in a library that it links, ddprun never calls them. What is tried: a
# run without and with a trace, and a report with stacks.
source "$(dirname "$0")/lib.sh"
limit=90

# uncalled NAME: no function of the program's was called.
uncalled() {
    check "$1: no function of the program is called" bash -c "! grep 'the program.s function was called' '$work/stderr'"
}

for names in ladder_names ladder_names_library; do
    trainer=$build/tests/trainers/$names
    for traced in "" --trace; do
        in_turn 2 || continue
        case="$names ${traced:-without a trace}"
        works "$case" "$ddprun" -n 2 ${traced:+--trace "$work/trace"} "$trainer" --layers 32 --steps 24
        uncalled "$case"
    done
    [ ! -e "$work/trace" ] || check "$names: the trace is whole" grep -q '^{"end":true' "$work/trace/rank-1.jsonl"
done

run "$ddprun" -n 2 --hang-timeout "$(patient $((sanitized ? 10 : 3)))" --bucket-mb 0.02 "$build/tests/trainers/ladder_names" \
    --steps 12 --fault hang --fault-step 9 --fault-rank 1
check "ladder_names: a rank that hangs is reported, with its stacks" grep -q -e '^ \+main+0x' -e 'ptrace is not permitted' "$work/stderr"
uncalled "ladder_names, a rank that hangs"
finish
