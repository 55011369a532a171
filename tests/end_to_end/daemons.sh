#!/usr/bin/env bash
# daemons.sh BUILD - trainers that go into the background (tests/trainers/daemons.c), in each form: trained on both ranks, with exit code 0, or refused, with
# exit code 1 and the line that says what to do. Both are right where the trainer begins before ddprun has waited its second; a trainer that begins
# long after that is refused.
source "$(dirname "$0")/lib.sh"
daemons=$build/tests/trainers/daemons
export DAEMONS_DONE=$work/done
refusal='rank [01] ended with exit code 0 and left process [0-9]+ \((daemons|sh|setsid)\) running, which ddprun ends'
watch_leftovers

trained() {
    [ "$code" -eq 0 ] && [ "$(cat "$DAEMONS_DONE")" = ++ ] && grep -q '^ddprun: 2 ranks, 20 steps' "$work/stderr"
}

refused() {
    [ "$code" -eq 1 ] && grep -qE "$refusal" "$work/stderr"
}

trained_or_refused() {
    trained || refused
}

# starts FORM DELAY_MS
starts() {
    rm -f "$DAEMONS_DONE"
    run "$ddprun" --device softgpu -n 2 --timeout 60 "$daemons" "$1" "$2"
}

starts plain 0
check "in the foreground: trained" trained
for form in daemon setsid double fork spawn spawn-session system system-session closed; do
    in_turn 3 || continue
    starts $form 0
    check "$form: trained or refused" trained_or_refused
    starts $form 300000
    check "$form, which begins too late: refused" refused
    check "$form, which begins too late: nothing was trained" test ! -e "$DAEMONS_DONE"
done
check "leaves no process" within 5 none_left
finish
