#!/usr/bin/env bash
# arena.sh BUILD - `ddprun scout` of programs with one large allocation (arena.cu): what lies between the arguments of a launch is not
# copied and changed for each launch, and all that a launch reaches is found; programs compute what they compute alone. Where copies have
# no room, the program is refused before launches are made again, with the sizes. While a stream is captured no launch is made again.
#
# Ordinarily 16 MiB; with DDPRUN_SOAK=1 also 2 GiB and 201 launches a step, which is bounded: copies take twice as much as the allocation.
source "$(dirname "$0")/../../end_to_end/lib.sh"
arena=$build/tests/tools/scout/arena
install_broken
watch_leftovers
scouts=("$ddprun" -q --device softgpu scout -v)

# right NAME: what was found is what the program's annotations say.
right() {
    succeeded "$1"
    check "$1: found as it is annotated" grep -q '^annotations: ' "$work/stdout"
}

# undisturbed NAME WORDS...: scouted to its end, the program has the weights of a bare run. Ordinarily one of three (in_turn).
undisturbed() {
    in_turn 3 || return
    run "$arena" "${@:2:3}" "$work/bare" "${@:5}"
    run "${scouts[@]}" --steps 0 "$arena" "${@:2:3}" "$work/scouted" "${@:5}"
    check "$1: the same bits" cmp "$work/bare" "$work/scouted"
}

undisturbed "an arena" 16 4 20 && right "an arena"
undisturbed "all weights in one launch" 16 4 20 together && right "all weights in one launch"
if [ -e "$build/tests/mutants/libddprun-scout.so" ]; then
    DDPRUN_MUTANT=SCOUT_COUNTS_UNSEEN run "$broken/bin/ddprun" -q --device softgpu scout -v "$arena" 16 4 20 "$work/scouted" together
    check "how much a launch is given to do counts" test "$(grep -c '^annotations: ' "$work/stdout")" -eq 0
fi

undisturbed "beside a capture" 16 4 20 captured && failed_with "beside a capture" 1 "forward cannot be repeated: a stream is captured beside it"

# limited TEXT: scouts the program where /proc/meminfo has TEXT.
limited() {
    printf '%s\n' "$1" >"$work/meminfo"
    DDPRUN_TEST_RECORDING=$work/recording run unshare -rm bash -c 'mount --bind "$1" /proc/meminfo && shift && exec "$@"' _ "$work/meminfo" \
        "${scouts[@]}" "$arena" 16 4 20 "$work/scouted"
}
if unshare -rm mount --bind "$work/bare" /proc/meminfo 2>"$work/refused"; then
    limited "MemAvailable:   30720 kB"
    failed_with "no room" 1 "needs up to 32 MiB of main memory for it; 30 MiB are available: scout a smaller model"
    limited "MemAvailable:   81920 kB"
    right "room"
else
    echo "# no namespace for another /proc/meminfo: $(cat "$work/refused")"
fi

if [ "${DDPRUN_SOAK:-0}" = 1 ]; then
    limit=3000 run "${scouts[@]}" --timeout 3000 "$arena" 2048 50 20 "$work/scouted"
    right "2 GiB, 201 launches a step"
fi
check "leaves nothing" test -z "$(ls -A "$TMPDIR")"
finish
