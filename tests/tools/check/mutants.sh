#!/usr/bin/env bash
# mutants.sh BUILD - an engine, or a library of files and clocks, that is broken on purpose (tests/mutant.h) has other verdicts than the
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
small_update() { # a wrong rate that moves the weights by a millionth
    checked 2 "--steps 8" "$updates" --rate 1e-6 --mistake rate_times_n
    [ -z "$(why_not 1 update -)" ]
}
noise() { # a gradient of rounding noise, which Adam makes as large as any other
    checked 2 "--steps 8" "$updates" --adam --noise
    [ -z "$(why_not 0 null -)" ]
}
chaotic_sums() { # whose rounding errors double from round to round
    checked 2 "" "$sums" chaos
    [ -z "$(why_not 0 null -)" ]
}
seeded() { # by a clock, whose microseconds differ from run to run
    checked 2 "" "$seeds" --seed system_clock --use shuffle
    [ -z "$(why_not 1 seeded -)" ]
}

managed() { # a tensor that is annotated as nothing, in managed memory
    checked 2 "--steps 8 --free" "$rows" bias_managed # which has no place: that would name it, too
    [ -z "$(why_not 1 unannotated -)" ]
}

host_memory() { # a weight of the host's that is annotated as nothing, of which only bits tell
    checked 2 "" "$rows" bias_host --rate 1e-6
    [ -z "$(why_not 3 host_memory -)" ]
}

late_norm() { # of own gradients, in each eighth step: with overlap it is that of averages
    checked 2 "" "$build/tests/tools/check/jury/loops" norm_used_own
    [ -z "$(why_not 1 update -)" ]
}

idle() { # a rank without records in the last step, and in the one behind it
    checked 3 "--steps 64" "$rows" --habit idle
    [ -z "$(why_not 0 null -)" ]
}

probe() { # a tensor that is annotated as nothing, and trained in every fifth step
    checked 2 "" "$rows" probe
    [ -z "$(why_not 1 unannotated -)" ]
}

several_steps() { # a DDP_STEP behind each of two micro-batches
    checked 2 "--steps 8" "$rows" --micro 2 --habit two_steps
    [ -z "$(why_not 0 null -)" ]
}

cancels() { # a gradient that nearly cancels: only moving the data shows its rounding
    checked 2 "--steps 8" "$updates" --cancels
    [ -z "$(why_not 0 null -)" ]
}

# mutant NAME SCENE: the scene passes with the real engine and fails with the defect.
mutant() {
    in_turn 3 || return 0
    check "scene $2: the real engine passes" "$2"
    if DDPRUN_MUTANT=$1 "$2" >/dev/null 2>&1; then
        not_ok "$1 is caught by $2" "it passes as the real engine does"
    else
        ok "$1 is caught by $2: exit code $code"
    fi
}
mutant CHECK_LAST_LEFT_OUT every_tensor
mutant CHECK_GRADIENTS_LATE right
mutant CHECK_CHANGE_IGNORED small_update
mutant CHECK_NOT_FORCED noise
mutant CHECK_READINGS_UNSEEN seeded
mutant FILES_DATE_REAL seeded
mutant CHECK_REDUCED_NOT_FORCED chaotic_sums
mutant CHECK_MANAGED_UNSEEN managed
mutant CHECK_FAR_NEAR host_memory
mutant CHECK_LEAVES_BUCKETS idle
mutant CHECK_LATE_UNSEEN probe
mutant CHECK_LATE_EQUAL late_norm
mutant CHECK_STEPS_APART several_steps
mutant CHECK_DATA_STILL cancels
finish
