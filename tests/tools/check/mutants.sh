#!/usr/bin/env bash
# mutants.sh BUILD - an engine, or a library of files and clocks, that is broken on purpose (tests/lib/mutant.h) has other verdicts than the
# real one: each scene passes with the real one and fails with the defect.
source "$(dirname "$0")/../../end_to_end/lib.sh"
source "$(dirname "$0")/lib.sh"
copy=$work/copy # what a user has, but for the engine: the launcher finds its libraries beside itself
mkdir -p "$copy/bin" "$copy/lib"
cp "$ddprun" "$copy/bin/"
ln -s "$build/lib/libddprun.so" "$build/lib/softgpu" "$copy/lib/"
ln -s "$build/tests/tools/sandbox/libfiles_mutants.so" "$copy/lib/libddprun-files.so"
ln -s "$build"/tests/mutants/libddprun-{engine,check}.so "$copy/lib/"
ddprun=$copy/bin/ddprun

# ---- scenes ----
tensors=('parameter '{1..4} 'gradient '{1..4} 'mean 1')
every_tensor() { # equal, and whatever is annotated was compared
    local tensor
    checked 2 "--steps 3 -v" "$rows" "${few[@]}"
    [ -z "$(why_not 0 null -)" ] || return 1
    for tensor in "${tensors[@]}"; do
        grep -Eq "^$tensor +[0-9]+ .* equal$" "$work/stdout" || return 1
    done
}
right() { # in two commands, which make no further runs
    rm -f "$work/reference"
    run "$ddprun" -q check -n 1 --reference "$work/reference" "$rows" "${few[@]}"
    checked 2 "--reference $work/reference" "$rows" "${few[@]}"
    [ -z "$(why_not 0 null -)" ]
}

# said RANKS OPTIONS CODE CAUSE PROGRAM...
said() {
    checked "$1" "$2" "${@:5}"
    [ -z "$(why_not "$3" "$4" -)" ]
}

# mutant NAME SCENE...: the scene passes with the real engine and fails with the defect.
mutant() {
    in_turn 3 || return 0
    local name=$1
    shift
    check "scene $*: the real engine passes" "$@"
    if DDPRUN_MUTANT=$name "$@" >/dev/null 2>&1; then
        not_ok "$name is caught by $*" "it passes as the real engine does"
    else
        ok "$name is caught by $*: exit code $code"
    fi
}
mutant CHECK_LAST_LEFT_OUT every_tensor
mutant CHECK_GRADIENTS_LATE right
# A wrong rate that moves the weights by a millionth; a gradient of rounding noise, which Adam makes as large as any other.
mutant CHECK_CHANGE_IGNORED said 2 "--steps 8" 1 update "$updates" --rate 1e-6 --mistake rate_times_n
mutant CHECK_NOT_FORCED said 2 "--steps 8" 0 null "$updates" --adam --noise
# By a clock, whose microseconds differ from run to run.
mutant CHECK_READINGS_UNSEEN said 2 "" 1 seeded "$seeds" --seed system_clock --use shuffle
mutant FILES_DATE_REAL said 2 "" 1 seeded "$seeds" --seed system_clock --use shuffle
# Rounding errors double from round to round.
mutant CHECK_REDUCED_NOT_FORCED said 2 "" 0 null "$sums" chaos
# A tensor that is annotated as nothing, in managed memory; it has no place: that would name it, too.
mutant CHECK_MANAGED_UNSEEN said 2 "--steps 8 --free" 1 unannotated "$rows" bias_managed
# A weight of the host's that is annotated as nothing, of which only bits tell.
mutant CHECK_FAR_NEAR said 2 "" 3 host_memory "$rows" bias_host --rate 1e-6
# A rank without records in the last step, and in the one after it.
# A tensor that is annotated as nothing, and trained in every fifth step.
mutant CHECK_LATE_UNSEEN said 2 "" 1 unannotated "$rows" probe
# A DDP_STEP after each of two micro-batches; a gradient that nearly cancels: only moving the data shows its rounding.
mutant CHECK_STEPS_APART said 2 "--steps 8" 0 null "$rows" --micro 2 --habit two_steps
mutant CHECK_DATA_STILL said 2 "--steps 8" 0 null "$updates" --cancels
# Gradients that no batch clears, and what one batch of turns leaves to the next; a stop by a loss that is another rank's.
mutant CHECK_TURN_NOT_PUT_BACK said 2 "" 0 null "$build/tests/trainers/turns" after
mutant CHECK_LEFT_UNSEEN said 2 "" 1 turns "$build/tests/trainers/turns_wrong" statistics
mutant CHECK_BLIND_SEES said 2 "" 1 turns "$build/tests/trainers/turns_wrong" stop
finish
