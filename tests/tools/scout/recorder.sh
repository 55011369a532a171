#!/usr/bin/env bash
# recorder.sh BUILD - the recorder of `ddprun scout` says of kernels what they are known to do, and disturbs nothing: what programs
# have computed at their end has the bits of a bare run.
source "$(dirname "$0")/../../end_to_end/lib.sh"
scout=$build/tests/tools/scout
text=$(dirname "$data")/shakespeare.txt
watch_leftovers

# undisturbed NAME PROGRAM...: ends with the same file @ in a bare run and after scouting.
undisturbed() {
    local name=$1
    shift
    run "$ddprun" -q -n 1 --unannotated "${@//@/$work/bare}"
    [ "$code" -eq 0 ] || { not_ok "$name" "the bare run ends with $code"; return; }
    DDPRUN_TEST_RECORDING=$work/recording run "$ddprun" -q scout -v --steps 0 "${@//@/$work/scouted}"
    check "$name: the same bits" cmp "$work/bare" "$work/scouted"
    check "$name: recorded to the end" test -s "$work/recording"
    check "$name: leaves nothing" test -z "$(ls -A "$TMPDIR")"
}

undisturbed facts "$scout/facts" @
shown=$work/facts
"$scout/facts_check" "$work/recording" >"$work/facts" || failures=$((failures + 1))
cat "$work/facts"

# Files that the program uses; not those of CUDA and ddprun.
host=$build/tests/tools/scout/turns
works "a program that uses files" "$ddprun" -q scout -v --json "$work/plan.json" "$host" host "$data" "$work/written"
check "the plan has the one that is written" grep -Fq '"path":"'"$work/written"'"' "$work/plan.json"
check "and the one that is read" grep -Fq '"path":"'"$data"'"' "$work/plan.json"

# Frames of a cudart inside the program are left out, as those of a shared one. Without symbols they stay, and nothing else is said.
strip -o "$work/stripped" "$build/tests/trainers/ladder_static"
while read -r program than; do
    works "$program is proved" "$ddprun" -q scout --prove --json "$work/plan.json" "$program" --steps 40
    frames=$(grep -o '"offset":' "$work/plan.json" | wc -l)
    sed -i 's/ have the same .*//' "$work/stdout" # how many bytes are compared varies from run to run
    [ -e "$work/said" ] || { cp "$work/stdout" "$work/said" && shared=$frames; }
    check "$program: the same findings" diff "$work/said" "$work/stdout"
    check "$program: $frames frames" [ "$frames" "$than" "$shared" ]
done <<ROWS
$build/tests/trainers/ladder -eq
$build/tests/trainers/ladder_static -eq
$work/stripped -gt
ROWS

undisturbed digits "$build/samples/digits" --data "$data" --steps 24 --quiet --save @
undisturbed chargpt "$build/samples/chargpt" --data "$text" --layers 1 --width 16 --heads 2 --context 8 --batch 2 --steps 9 \
    --warmup 0 --eval-every 1000 --eval-batches 1 --quiet --save @
finish
