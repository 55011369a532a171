#!/usr/bin/env bash
# races.sh BUILD - under ThreadSanitizer: scouting, its proofs and a training by plan on two ranks have no data race, and another order
# of the device's work gives the same bits. One chaos is enough here: plan.sh and the sanitizer see the rest.
source "$(dirname "$0")/../../end_to_end/lib.sh"
grep -q 'DDPRUN_SANITIZE:STRING=.*thread' "$build/CMakeCache.txt" || skip "this build has no ThreadSanitizer"
runtime=(env "LD_LIBRARY_PATH=$build/lib/softgpu" "LD_PRELOAD=$(gcc -print-file-name=libtsan.so)" TSAN_OPTIONS="${TSAN_OPTIONS:-} exitcode=66")
head -n 1440 "$data" >"$work/digits.csv"
digits=("$build/samples/digits_plain" --data "$work/digits.csv" --batch 24 --quiet)
cd "$work" || exit 1
race_free() {
    succeeded "$1"
    check "$1: no data race" test -z "$(grep -h 'WARNING: ThreadSanitizer' stdout stderr)"
}
run "$ddprun" -q --device softgpu scout --prove --json plan.json "${digits[@]}" --steps 40
race_free "scout --prove"
for chaos in 0 7; do
    run env SOFTGPU_CHAOS=$chaos "$ddprun" -n 2 --device softgpu --share-gpu --plan plan.json "${digits[@]}" --steps 80 --save "$chaos.par"
    race_free "two ranks by plan, chaos $chaos"
done
check "the same bits" cmp 0.par 7.par
finish
