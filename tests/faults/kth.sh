#!/usr/bin/env bash
# kth.sh BUILD [KIND IN K] - each allocation, open, write, rename, fork, socket and thread that ddprun's own objects ask for fails once
# (kth.c), in ddprun and in rank 0 of a short job: the job continues, or ends with a line that says why; nothing is left, and no
# file is half-written. With DDPRUN_SOAK=1 all calls of each kind, or 2,000 of them; else a few. KIND IN K: this one, and its output.
source "$(dirname "$0")/../end_to_end/lib.sh"
library=$build/tests/faults/libkth.so
export TMPDIR=$work/tmp DDPRUN_TEST_MARK=kth-$$
mark=$DDPRUN_TEST_MARK
unset XDG_RUNTIME_DIR
most=$((${DDPRUN_SOAK:-0} == 1 ? 2000 : 4))
mkdir "$TMPDIR"

# job KIND IN K: a short job whose K-th call fails.
job() {
    rm -rf "$work/job" "$XDG_CACHE_HOME" "$work/calls"
    mkdir "$work/job"
    run env "LD_PRELOAD=$library" KTH_KIND="$1" KTH_IN="$2" KTH_K="$3" KTH_LOG="$work/calls" "$ddprun" -n 2 --device softgpu --share-gpu --timeout 10 \
        --summary-json "$work/job/summary.json" --trace "$work/job/trace" "$ladder" --steps 12
}

is_empty() { [ -z "$(ls -A "$TMPDIR")" ]; }

# wrong: what is not as promised of the last job.
wrong() {
    if [ "$code" -eq 124 ] || [ "$code" -ge 128 ]; then
        echo "exit code $code "
    elif [ "$code" -ne 0 ] && ! grep -Eaq '^(\[1\] )?ddprun: ' "$work/stderr"; then
        echo "exit code $code without a line "
    fi
    within 5 is_empty || echo "left in TMPDIR: $(ls "$TMPDIR") "
    within 5 none_left || echo "processes are left "
    find "$work/job" "$XDG_CACHE_HOME" -regex '.*\(\.new\|\.[0-9]+\)' -printf 'half-written: %p ' 2>/dev/null
    [ ! -e "$work/job/summary.json" ] || [ "$(tail -c 2 "$work/job/summary.json")" = '}' ] || echo "the summary is cut "
    rm -rf "${TMPDIR:?}"/*
}

# all_calls KIND IN: one job for each call, or for `most` of them.
all_calls() {
    local calls tried bad='' i k why
    job "$1" "$2" 0
    calls=$(sort -n "$work/calls" 2>/dev/null | tail -n 1)
    tried=$((${calls:=0} < most ? calls : most))
    for ((i = 0; i < tried; i++)); do
        k=$((1 + i * calls / tried))
        job "$1" "$2" "$k"
        why=$(wrong)
        [ -z "$why" ] || bad+="$k: $why$(tail -n 1 "$work/stderr" | cut -c1-160); "
    done
    report "$tried of $calls calls: $1 in $2" "$bad"
}

if [ $# -eq 4 ]; then
    job "$2" "$3" "$4"
    cat "$work/stderr"
    report "call number $4 of $2 in $3 (exit code $code)" "$(wrong)"
else
    for where in ddprun rank; do
        for kind in alloc open write rename fork socket thread; do
            all_calls $kind $where
        done
    done
fi
finish
