#!/usr/bin/env bash
# plan.sh BUILD - `ddprun --plan`: programs without annotations train by turns, and have, bit for bit, the parameters of the annotated
# program with N times the batch. What no longer fits its plan ends the job, and says why: another build, model, batch, program; a
# forward pass without an update; a gradient that is changed while it waits; ranks that see other batches. Damaged plans, and plans
# that are not proved, are refused. Only rank 0 writes files. With DDPRUN_SOAK=1 on more ranks.
source "$(dirname "$0")/../../end_to_end/lib.sh"
watch_leftovers
install_broken
head -n 1440 "$data" >"$work/digits.csv" # 1152 of them to train with: whole batches of 24 on 2, 3, 4 and 8 ranks
digits=(--data "$work/digits.csv" --batch 24)
chargpt=(--data "$(dirname "$data")/shakespeare.txt" --layers 2 --width 32 --heads 2 --context 16 --batch 4 --eval-every 60)
cd "$work" || exit 1

# by_plan RANKS PLAN PROGRAM...
by_plan() {
    run "$ddprun" -n "$1" --device softgpu --share-gpu --timeout 60 --plan "$2" "${@:3}"
}

# trains NAME CODE PATTERN PLAN PROGRAM...: on two ranks, and ends so.
trains() {
    by_plan 2 "${@:4}"
    ends "${@:1:3}"
}

# overlapped NAME: the last job overlapped steps. How many depends on its trials, and these on time.
overlapped() {
    check "$1: steps overlapped" grep -Eq ' [1-9][0-9]* of them overlapped' "$work/stderr"
}

# ---- the bits of the annotated program ----
planned digits digits.json "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
steps=$((${DDPRUN_SOAK:-0} == 1 ? 300 : 60))
ranks=(2 3)
[ "${DDPRUN_SOAK:-0}" -ne 1 ] || ranks=(2 3 4 8)
for n in "${ranks[@]}"; do
    rm -f turns.par annotated.par
    by_plan "$n" digits.json "$build/samples/digits_plain" "${digits[@]}" --steps $((n * steps)) --quiet --save turns.par
    ends "digits by turns on $n ranks" 0 'bitwise identical'
    overlapped "digits on $n ranks"
    run "$ddprun" -n "$n" --device softgpu --share-gpu "$build/samples/digits" --data digits.csv --batch $((24 * n)) --steps $steps --quiet --save annotated.par
    check "on $n ranks: the annotated program's bits" cmp turns.par annotated.par
    [ "$n" -gt 2 ] || cp turns.par two.par
done
planned chargpt chargpt.json "$build/samples/chargpt_plain" "${chargpt[@]}" --steps 40
trains "chargpt, which validates between steps" 0 'the last 1 of 301 batches do not fill a round' chargpt.json "$build/samples/chargpt_plain" "${chargpt[@]}" --steps 301 --save "chargpt-%d.par"
overlapped chargpt
check "chargpt: rank 0 alone is heard" test -z "$(grep '^\[1\]' "$work/stdout")"
check "chargpt: rank 0 alone writes" test "$(echo chargpt-*.par)" = chargpt-0.par

planned statistics statistics.json "$build/tests/tools/scout/turns" statistics
by_plan 3 statistics.json "$build/tests/tools/scout/turns" statistics
ends "a program that frees nothing, and ends in the middle of a round" 0 'the last 1 of 40 batches do not fill a round of 3'

# ---- what shows it ----
by_plan 2 statistics.json --trace trace --page page.html --summary-json end.json "$build/tests/tools/scout/turns" statistics
check "the last lines count rounds and batches" grep -q '20 steps (each a round of 2 of the program.s 40 batches)' "$work/stderr"
check "so does the summary" grep -q '"batches": *40, *"batches_per_step": *2' <(tr '\n' ' ' <end.json)
check "so does the page" grep -q 'a step is a round of 2 of the program[^ ]*s 40 batches' page.html
run "$ddprun" trace trace -o timeline.json
check "so does the timeline, which has the batch of each rank" [ "$(sed -nE 's/.*"round".*"step":20,.*"first_batch":39,"last_batch":40,"own_batch":([0-9]+).*/\1/p' timeline.json | sort | tr '\n' ' ')" = '39 40 ' ]

# ---- what does not fit ----
trains "another batch is the same plan" 0 'bitwise identical' digits.json "$build/samples/digits_plain" --data "$data" --batch 36 --steps 40 --quiet
trains "another width" 1 '[0-9]+ bytes.* is not there .* the model has other sizes' chargpt.json "$build/samples/chargpt_plain" "${chargpt[@]}" --width 64 --steps 40
trains "another accumulation" 1 'comes again before the update of the plan' chargpt.json "$build/samples/chargpt_plain" "${chargpt[@]}" --accumulate 2 --steps 40
trains "another program" 1 'no step of the plan began' digits.json "$build/samples/chargpt_plain" "${chargpt[@]}" --steps 10
cp "$build/samples/digits_plain" changed
planned "a copy" changed.json ./changed "${digits[@]}" --steps 40 --quiet
objcopy --remove-section .note.gnu.build-id changed
trains "another build" 1 'was built again after its plan was made' changed.json ./changed "${digits[@]}" --steps 40 --quiet

planned "a program without a build id" unnamed.json ./changed "${digits[@]}" --steps 40 --quiet
trains "the same program, without a build id" 0 'bitwise identical' unnamed.json ./changed "${digits[@]}" --steps 40 --quiet
cp "$build/samples/digits_plain" changed # of another size
objcopy --remove-section .note.gnu.build-id --remove-section .comment changed
trains "another file, without a build id, either" 1 'was built again after its plan was made' unnamed.json ./changed "${digits[@]}" --steps 40 --quiet

# ---- plans ----
refused() { # NAME PLAN PATTERN
    trains "$1" 2 "$3" "$2" "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
    check "$1: one line" test "$(wc -l <"$work/stderr")" -eq 1
}
refused "no file" none.json 'cannot read the plan none.json'
head -c 2000 digits.json >cut.json
refused "a plan that is cut" cut.json 'it is not JSON, or cut'
echo '{"a": 1}' >no.json
refused "no plan" no.json 'is no plan of ddprun scout'
sed 's/"version":3/"version":2/' digits.json >version.json
refused "the version before" version.json 'has version 2, and this ddprun reads version 3'
sed 's/"made_by":"turn"/"made_by":"last"/' digits.json >changed.json
refused "a plan that was changed" changed.json 'was changed since it was made: its hash is wrong; make it again: ddprun scout --prove --json changed.json'
by_plan 2 changed.json --unproved "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
check "the same, --unproved, is not refused" test "$code" -ne 2
refused "a folder" . 'cannot read the plan ., in --plan: it is a folder'
mkfifo fifo.json
refused "a FIFO" fifo.json 'cannot read the plan fifo.json, in --plan: it is not a regular file'
refused "a device" /dev/zero 'cannot read the plan /dev/zero, in --plan: it is not a regular file'
truncate -s 1G large.json
refused "1 GB of zeros" large.json 'cannot read the plan large.json, in --plan: it is too large'
trains "a plan from a pipe of the shell" 0 '' <(cat digits.json) "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
exec {silent}<>fifo.json
refused "a pipe without a writer" "/dev/fd/$silent" 'it gave no data for 2 s'
install -m 000 digits.json locked.json
[ "$(id -u)" -eq 0 ] || refused "a plan that another user may read" locked.json 'cannot read the plan locked.json'
python3 -IS -c 'import json
plan = json.load(open("digits.json"))
plan["proof"]["turns"] = {"end": "failed", "text": "a\nb"}
json.dump(plan, open("lines.json", "w"))'
refused "a plan with a text of several lines" lines.json 'failed: a.b'
# Deep products leave partial sums in a workspace that cuBLAS has allocated.
SOFTGPU_UNRULY=1 run "$ddprun" -q --device softgpu scout "$build/samples/digits_plain" "${digits[@]}" --steps 12 --quiet
succeeded "scout, cuBLAS with a workspace of its own"
run "$ddprun" -q --device softgpu scout --json bare.json "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
refused "a plan that says nothing of turns" bare.json 'does not say how ranks take turns'
python3 -IS -c 'import json
plan = json.load(open("digits.json"))
plan["proof"]["turns"]["end"] = "failed"
json.dump(plan, open("failed.json", "w"))'
refused "a plan whose proof failed" failed.json 'proof \(d\) of the plan failed.json: failed'
trains "the same, --unproved" 0 'bitwise identical' failed.json --unproved "$build/samples/digits_plain" "${digits[@]}" --steps 40 --quiet
run "$ddprun" -q --device softgpu scout --prove --json gan.json "$build/tests/matrix/gan_shared"
refused "a program that ranks cannot play" gan.json 'ranks cannot take turns by the plan gan.json: gradients are averaged in 2 places'

# ---- ranks that see other batches, and guards that are broken on purpose ----
cat >seeded <<END
#!/bin/sh
exec "$build/samples/digits_plain" "\$@" --seed "\$RANK"
END
chmod +x seeded
guarded() { # NAME MUTANT PATTERN PLAN PROGRAM...
    trains "$1" 1 "$3" "${@:4}"
    run env DDPRUN_MUTANT="$2" "$broken/bin/ddprun" -n 2 --device softgpu --share-gpu --timeout 60 --plan "${@:4}"
    check "$1: without its guard it is not seen" test "$code" -eq 0 -o -z "$(grep -E "$3" "$work/stderr")"
}
guarded "ranks with other seeds" PLAN_DATA_UNHEARD 'the batches that the program copies to its device' digits.json ./seeded "${digits[@]}" --steps 400 --quiet
guarded "a forward pass without an update" PLAN_UPDATE_UNASKED 'comes again before the update of the plan' chargpt.json "$build/samples/chargpt_plain" "${chargpt[@]}" --accumulate 2 --steps 40
planned accumulate accumulate.json "$build/tests/matrix/accumulate_shared" --steps 60
trains "a log that gets gradients while they wait" 0 'have read gradients before they were averaged' accumulate.json "$build/tests/matrix/accumulate_shared" --steps 60
for habit in lazy looks halves; do
    planned $habit $habit.json "$build/tests/tools/scout/turns" $habit
done
trains "a gradient that is made in the first batch" 0 'bitwise identical' lazy.json "$build/tests/tools/scout/turns" lazy
by_plan 3 lazy.json "$build/tests/tools/scout/turns" lazy
ends "a program that ends in the middle of a round" 0 'the last 1 of 40 batches do not fill a round of 3 ranks'
trains "a kernel that reads a gradient while it waits" 0 'have read gradients before they were averaged' looks.json "$build/tests/tools/scout/turns" looks
guarded "a kernel that changes a gradient while it waits" PLAN_PENDING_TOUCHED 'halve[^ ]* changes a gradient that waits for the other ranks' halves.json "$build/tests/tools/scout/turns" halves
finish
