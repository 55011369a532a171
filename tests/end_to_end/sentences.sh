#!/usr/bin/env bash
# sentences.sh BUILD - twelve kinds of runs, ordinarily a third of them (in_turn): each sentence of page, closing lines and summary beside the figure that it
# is of, and no word with two values (sentences.py). And that this is seen: a figure of each that is changed.
source "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 here, which reads pages"
sentences=$(dirname "$0")/sentences.py
trainers=$build/tests/trainers
paced=("$trainers/paced" --layers 4 --kib 16 --layer-us 4000 --forward-us 4000 --steps 70)

# kind NAME CODE OPTIONS... -- COMMAND...: a run, and what is said of it, held to its figures.
kind() {
    local name=$1 wanted=$2
    [ "$name" = slow ] || in_turn 3 || return 0
    rm -rf "$work/trace" "$work/page.html" "$work/summary"
    run "$ddprun" --device softgpu --trace "$work/trace" --page "$work/page.html" --summary-json "$work/summary" "${@:3}"
    check "$name: exit code $wanted" [ "$code" -eq "$wanted" ]
    cp "$work/stderr" "$work/closing"
    held "$name"
}
held() {
    cp "$work/page.html" "$work/page-$1.html"
    check "$1: one value for each word" python3 "$sentences" "$1" "$work/page.html" "$work/summary" "$work/closing"
}

late=$(patient 30000) # much later than a busy machine makes the others
kind balanced 0 -n 3 -- "${paced[@]}"
kind slow 0 -n 3 -- "${paced[@]}" --late-us "$late" --late-rank 1

# What is changed is seen: each of these would be a sentence of another window, or of another computation.
changed() { # FILE PATTERN REPLACEMENT
    cp "$work/$1" "$work/kept"
    sed -E -i "s/$2/$3/" "$work/$1"
    check "seen: another figure in the $1 ($2)" bash -c "! cmp -s '$work/$1' '$work/kept' && ! python3 '$sentences' slow '$work/page.html' '$work/summary' '$work/closing' >/dev/null"
    cp "$work/kept" "$work/$1"
}
changed page.html '(A step takes )[0-9.]+' '\17.77'
changed page.html '(run-efficiency.>)[0-9.]+' '\177.7'
changed page.html '(Most of the lost time is waiting for rank 1: )[0-9.]+' '\17.77'
changed closing '(last to arrive in )[0-9]+ of ' '\11 of '
changed closing '(exposed communication: )[0-9.]+' '\177.7'
changed closing 'waiting for rank 1' 'waiting for rank 2'
changed summary '("steps_per_second": )[0-9.]+' '\11.5'
held slow

# The progress line is of steps of its own, and names the same rank.
TERM=xterm "$(dirname "$0")/../launcher/screen.py" --watch 'waiting for rank 1: ' "$work/seen" "$ddprun" --device softgpu -n 3 "${paced[@]}" \
    --late-us "$late" --late-rank 1 >"$work/screen"
check "on a terminal, the progress line waits for rank 1" [ -e "$work/seen" ]

kind turns 0 -n 3 -- "${paced[@]}" --late-us "$late" --late-rank -1
SOFTGPU_LINK=latency_us=8000,gbytes_per_s=1 kind link 0 -n 2 -- "${paced[@]}"
kind host 0 -n 2 -- "${paced[@]}" --host-from 0
kind nan 0 -n 4 -- "$trainers/sick" --rank 2 --tensor 3 --step 20 --steps 60
kind failed 139 -n 2 -- "$trainers/ladder" --layers 6 --width 64 --batch 64 --steps 80 --fault crash --fault-rank 1 --fault-step 60
kind hung 1 -n 2 --bucket-mb 0.02 --hang-timeout 0 --timeout "$patience" -- "$trainers/hangs" --how host
kind restarted 0 -n 2 --max-restarts 1 -- sh -c 'if [ -z "$DDPRUN_RESTART" ]; then exec "$0" "$@" --fault exit --fault-rank 1 --fault-step 5; fi; exec "$0" "$@"' \
    "$trainers/ladder" --layers 6 --width 64 --batch 64 --steps 80
kind regions 0 -n 2 -- "$trainers/turns" plain
kind graphs 0 -n 2 -- "$trainers/graphs"

run "$ddprun" -q --device softgpu scout --prove --json "$work/plan.json" "$build/samples/digits_plain" --data "$data" --batch 24 --steps 40 --quiet
succeeded "a plan is made"
kind plan 0 -n 2 --share-gpu --plan "$work/plan.json" -- "$build/samples/digits_plain" --data "$data" --batch 24 --steps 160 --quiet

looked_at "$work"/page-*.html

# One rank averages nothing: its page has the speed and the settings.
works "one rank: ends well" "$ddprun" --device softgpu -n 1 --page "$work/one.html" --summary-json "$work/summary" "$trainers/ladder" --steps 20
check "one rank: there is a page, and a line says where" grep -qx "ddprun: the page of this run: $work/one.html" "$work/stderr"
check "... the closing line does not say that it averages" grep -Eq '^ddprun: 1 rank, 20 steps; [0-9]+ gradients, .*, not averaged, for there is one rank$' "$work/stderr"
check "... which says that one rank averages nothing" grep -q 'One rank averages nothing' "$work/one.html"
check "... and takes no missing end for a fault" bash -c "! grep -q 'have no end' '$work/stderr' '$work/one.html'"
check "one rank: nothing is exposed, and no rank is waited for" bash -c "grep -q '\"exposed_ms\": null' '$work/summary' && ! grep -Eq 'exposed|waiting for' '$work/stderr'"
finish
