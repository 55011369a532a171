#!/usr/bin/env bash
# figures.sh BUILD - one run, one truth: of nine kinds of runs each figure is the same in every output, to the digit that is printed: closing lines, the
# progress line after the last step, --summary-json, --metrics, the page of --page and that of `ddprun report DIR`, `report A B`, and the timeline; parts add up
# to the whole; and the sums are those of the raw events (figures.py). Ordinarily some of the kinds run (in_turn).
source "$(dirname "$0")/../../end_to_end/lib.sh"
command -v python3 >/dev/null || skip "there is no python3 here, which reads the outputs"
figures=$(dirname "$0")/figures.py
trainers=$build/tests/trainers

# After the last step each rank waits until the progress line was seen (terminal.py).
# shellcheck disable=SC2016 # the rank's shell expands it
held=(sh -c '"$@"; code=$?; touch "$SHOWN/ended.$RANK"; until [ -e "$SHOWN/seen" ]; do sleep 0.05; done; exit $code' held)

# kind NAME CODE -n RANKS OPTIONS... -- COMMAND...: a run; its outputs are in $work/NAME.
kind() {
    local name=$1 of=$work/$1 terminal=()
    mkdir "$of"
    export SHOWN=$of
    [[ "$*" != *"${held[2]}"* ]] || terminal=(python3 "$(dirname "$0")/terminal.py" "$of" "$4")
    run "${terminal[@]}" "$ddprun" --device softgpu --trace "$of/trace" --page "$of/page.html" --summary-json "$of/summary" --metrics "$of/metrics" "${@:3}"
    check "$name: exit code $2" [ "$code" -eq "$2" ]
    cp "$work/stderr" "$of/closing"
    run "$ddprun" report "$of/trace" -o "$of/report.html"
    run "$ddprun" report "$of/trace" "$of/trace"
    cp "$work/stdout" "$of/compared"
    run "$ddprun" trace "$of/trace" -o "$of/timeline"
    check "$name: one value for each figure" python3 "$figures" "$name" "$of"
}

# Rank 1 is 5 ms late in steps 10 to 30. With --bucket-mb there are no trials, so none of these is a control step.
kind annotated 0 -n 2 --bucket-mb 25 -- "${held[@]}" "$trainers/paced" --layers 4 --kib 16 --layer-us 600 --forward-us 600 --steps 46 --host-from 1 \
    --late-us 5000 --late-rank 1 --late-from 9 --late-until 30

# What is changed is seen: a figure of each output gets one more digit.
changed() { # FILE, PATTERN of what stands before the figure
    cp "$work/annotated/$1" "$work/kept"
    sed -E -i "s/($2)/\19/" "$work/annotated/$1"
    check "seen: another figure in $1 ($2)" bash -c \
        "! cmp -s '$work/annotated/$1' '$work/kept' && ! python3 '$figures' annotated '$work/annotated' >/dev/null"
    cp "$work/kept" "$work/annotated/$1"
}
changed closing 'exposed communication: '
changed closing 'steps [0-9]+ to [0-9]+\) '
changed closing 'steps [0-9]+ to '
changed status 'exposed '
changed status '^ddprun: step [0-9]+, '
changed summary '"waiting_ms": '
changed metrics '^ddprun_step_seconds.* '
changed page.html "run-exposed'>"
changed page.html 'Means are of steps [0-9]+ to '
changed report.html "run-efficiency'>"
changed compared '^without averaging +'
changed timeline '"exposed_us":'
changed timeline '"waiting_us":'

# Each all-reduce takes 2 ms, a step's work far less: there is no setting against that, and the page says what is.
SOFTGPU_LINK=latency_us=2000,gbytes_per_s=1 kind short 0 -n 2 -- "${held[@]}" "$trainers/paced" --layers 2 --kib 4 --layer-us 20 --forward-us 20 --steps 40
check "short: a larger batch is advised" grep -q 'too little work beside its all-reduces' "$work/short/page.html"

in_turn 3 && kind nan 0 -n 4 -- "${held[@]}" "$trainers/sick" --rank 2 --tensor 3 --step 20 --steps 300
in_turn 3 && kind failed 139 -n 2 -- "$trainers/ladder" --layers 6 --width 64 --batch 64 --steps 80 --fault crash --fault-rank 1 --fault-step 60
in_turn 3 && kind restarted 0 -n 2 --max-restarts 1 -- sh -c \
    'if [ -z "$DDPRUN_RESTART" ]; then exec "$0" "$@" --fault exit --fault-rank 1 --fault-step 5; fi; exec "$0" "$@"' \
    "$trainers/ladder" --layers 6 --width 64 --batch 64 --steps 80
in_turn 3 && kind captured 0 -n 2 -- "${held[@]}" "$trainers/graphs"

if in_turn 3; then # more processes than cores
    burners=()
    for ((i = 0; i < 3; ++i)); do
        bash -c 'while :; do :; done' &
        burners+=($!)
    done
    kind load 0 -n 3 -- "${held[@]}" "$trainers/paced" --layers 4 --kib 16 --layer-us 1000 --forward-us 1000 --steps 40
    kill "${burners[@]}"
    wait "${burners[@]}" 2>/dev/null
fi

by_plan() { # NAME WAY
    run "$ddprun" -q --device softgpu scout --by "$2" --prove --json "$work/plan.json" "$digits_plain" --data "$data" --batch 24 --steps 40 --quiet
    succeeded "$1: a plan is made"
    kind "$1" 0 -n 2 --share-gpu --plan "$work/plan.json" -- "$digits_plain" --data "$data" --batch 24 --steps 160 --quiet
}
in_turn 3 && by_plan plan_gradients gradients
in_turn 3 && by_plan plan_state state
finish
