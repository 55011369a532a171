#!/usr/bin/env bash
# repairs.sh BUILD - what happens amid a repair (repairs.cu, repair_nccl.c): a rank that sleeps, is killed, stopped or loses its network
# there; a device that is busy, and 64 streams. The step is repaired, or the job ends as it does elsewhere, and saves no wrong step. And
# rare writes cost no overlap.
source "$(dirname "$0")/lib.sh"
limit=60
repairs=$build/tests/trainers/repairs
file=$work/saved
summary=$work/summary.json
watch_leftovers

# The step before the repaired one, and that itself: two ranks.
right='(9 -6\.75 -6\.75|10 -7\.5 -8)'
train=("$ddprun" -n 2 --device softgpu --bucket-mb 0.05 --nccl "$build/tests/end_to_end/librepair_nccl.so" --summary-json "$summary")

# trains MODE FAULT OPTION...
trains() {
    rm -f "$file" "$file.new" "$summary"
    run env REPAIR_NCCL_FAULT="$2" "${train[@]}" "${@:3}" "$repairs" "$1" "$file"
}

figure() { # KEY
    python3 -IS -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$summary" "$1"
}

# is_repaired NAME: the last job ended well, all weights are right, and one step was repaired.
is_repaired() {
    succeeded "$1"
    check "$1: one step is repaired" [ "$(figure repaired_steps)" = 1 ]
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
}

# has_ended NAME CODE PATTERN: the last job ended so, by a line that matches, and what it has saved is right.
has_ended() {
    check "$1: exit code $2" [ "$code" -eq "$2" ]
    check "$1: says so" grep -qE "^ddprun: $3" "$work/stderr"
    check "$1: what is saved is right: $(cat "$file")" grep -qxE "$right" "$file"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}

# repaired NAME MODE FAULT OPTION...
repaired() {
    trains "${@:2}"
    is_repaired "$1"
}

# stopped_rank: the process of the job that is stopped.
stopped_rank() {
    local process
    for process in $(marked | cut -d / -f 3); do
        ! grep -q '^State:.T' "/proc/$process/status" 2>/dev/null || echo "$process"
    done
}
is_stopped() { [ -n "$(stopped_rank)" ]; }

repaired "nothing happens" plain ''
repaired "64 streams" streams ''
repaired "a busy device" busy ''
for when in before after; do
    in_turn 2 || continue
    repaired "one host of four sleeps $when it sends" plain "sleep $when" -n 4
    SOFTGPU_NCCL_MEETS=all repaired "a host sleeps $when it sends, and the other waits for it in NCCL's call" streams "sleep $when"
    repaired "a host sleeps $when it sends, and devices are busy" busy "sleep $when"

    trains plain "kill $when"
    has_ended "a rank is killed $when it sends" 137 'rank 1 .*was ended by SIGKILL .* after step 9'
    trains apart "cut $when"
    has_ended "a rank's network is gone $when it sends" 1 'rank [01] .*(NCCL|nccl[A-Za-z]*): another rank failed'

    # Stopped for good, and until the test lets it continue.
    trains plain "stop $when" --hang-timeout "$(patient 1 3)"
    has_ended "a rank is stopped $when it sends" 1 'rank 1 .*, and the job ends: it is stopped \(SIGSTOP'
    { trains plain "stop $when" && exit "$code"; } &
    job=$!
    check "a rank is stopped $when it sends" within 30 is_stopped
    kill -CONT "$(stopped_rank)"
    wait "$job"
    code=$?
    is_repaired "a rank is stopped $when it sends, and continues"
done

# A right program that writes a gradient once more in every 70th step. So small a program gains nothing by overlap: a trial would switch
# it off.
steps=$((${DDPRUN_SOAK:-0} == 1 ? 5000 : 1000))
DDPRUN_TEST_TRIALS=0 works "a write more in each 70th step" "$ddprun" -n 2 --summary-json "$summary" "$build/tests/trainers/rarely" 70 "$steps"
overlapped=$(figure overlapped_steps)
check "... $overlapped of $steps steps overlap, and 95 % are to" [ $((overlapped * 100)) -ge $((steps * 95)) ]
check "... no gradient is given up" bash -c "! grep -q 'without overlap' '$work/stderr'"
finish
