#!/usr/bin/env bash
# input.sh BUILD - what `ddprun scout` does with what is wrong: one line on stderr, the exit code that its help names, nothing left in TMPDIR, and no process.
source "$(dirname "$0")/../../end_to_end/lib.sh"
wrong=$build/tests/tools/scout/wrong
watch_leftovers

# refused NAME CODE PATTERN WORDS...: `ddprun -q WORDS...` ends with CODE and one line that matches.
refused() {
    fails "$1" "$2" "$3" "$ddprun" -q "${@:4}"
    check "$1: leaves nothing" test -z "$(ls -A "$TMPDIR")"
    check "$1: leaves no process" within 5 none_left
}

refused "no program" 2 "no program given, after scout" scout
refused "an unknown option" 2 "unknown option --wrong of scout" scout --wrong "$wrong"
refused "--steps x" 2 "'x' is not a number from 3 to 100, in --steps" scout --steps x "$wrong"
refused "--timeout 0" 2 "'0' is not a number from 1 to" scout --timeout 0 "$wrong"
refused "two ranks" 2 "-n 2 and scout contradict each other" -n 2 scout "$wrong"
refused "--json in no folder" 2 "in --json" scout --json "$work/none/found.json" "$wrong"
refused "no such program" 127 "not found|no such file|cannot" scout "$work/none"
refused "a program without CUDA" 1 "without a use of CUDA" --device softgpu scout true
refused "a program that does not repeat itself" 1 "repeated nothing three times" scout "$wrong" once
refused "a program that trains nothing" 1 "this is not training" scout "$wrong" same
for habit in traps hangs; do
    pattern="wrong_step $([ $habit = traps ] && echo 'failed with CUDA_ERROR_ILLEGAL_ADDRESS' || echo 'did not end') when it was repeated with other inputs: the last of $([ $habit = traps ] && echo 3 || echo 2) runs leaves that out"
    refused "a kernel that $habit with other inputs" 1 "$pattern" scout --timeout "$(patient 3)" --json "$work/$habit.json" "$wrong" $habit
    check "a kernel that $habit: the plan has the reason" grep -Eq "\"reason\":\".*$pattern" "$work/$habit.json"
    check "a kernel that $habit: the plan says that nothing was found" grep -q '"found":false' "$work/$habit.json"
done

# Every macro may be called while the program is scouted.
for words in "fused kernels" "fused mixed --sync 1"; do
    works "$words: found" "$ddprun" -q scout -v "$build/tests/trainers/"$words
    check "$words: annotations are confirmed" grep -q '^annotations: each parameter and each gradient has one' "$work/stdout"
done
refused "a program that reduces, and trains nothing" 1 "repeated nothing three times" scout "$build/tests/trainers/reduces" types
finish
