#!/bin/bash
# grace.sh BUILD - a signal asks ranks to stop (--grace): who saves keeps the time, who waits for a rank that has left is ended, each rank
# that is killed is named; SIGUSR1 and SIGUSR2 reach a script and its trainer, and end no rank that does not expect them.
#
# The real ddprun, with helper programs for trainers and stubs for the libraries that it preloads. Exits 1 if a case is not ok. Needs no GPU.
source "$(dirname "$0")/lib.sh"

# A rank that has left the loop, and one that goes on: `catch` makes its file once the signal can come.
ready() { within 20 files_in "$pids" "$1"; }
lives() { ! is_gone "$1"; }
summary_has() { python3 -c 'import json, sys
for name, value in json.load(open(sys.argv[1])).items(): globals()[name] = value
sys.exit(not eval(sys.argv[2]))' "$top/end.json" "$1" || echo "the summary has not: $1 "; }
recipe='DDP_ANY\(&flag\)'

# ---- who saves ----
for name in TERM:15:143 INT:2:130 HUP:1:129; do
    IFS=: read -r word number code <<<"$name"
    new_pids
    start -n 2 --summary-json "$top/end.json" "$fake" stage 3 step 82 @0 catch "$number" "$pids/0" await "$pids/go" say saved stage 4 exit 0 \
        @1 catch "$number" "$pids/1" wait "the end of the program" await "$pids/go" stage 4 exit 0
    ready 2
    kill -"$word" "$job"
    within 20 grep -q "^ddprun: SIG$word: ending 2 ranks" "$err"
    touch "$pids/go"
    end_job
    report "SIG$word: ranks save and leave with 0" "$(expect "$code" "$out" '^saved' "$err" '^ddprun: 2 ranks, 82 steps')$(grep -E 'was killed|different' "$err")$(
        summary_has "grace == 30 and signal == '$word' and exit_code == $code and [(r['exit_code'], r['killed']) for r in each_rank] == [(0, None)] * 2")"
done
new_pids
start --device softgpu -n 1 sh -c '"$0" stage 3 step 82 catch 15 "$1/0" await "$1/go" say saved stage 4 exit 0; exit $?' "$fake" "$pids"
ready 1
kill -TERM "$job"
within 20 grep -q '^ddprun: SIGTERM: ending 1 rank' "$err"
trainer_alone() { [ "$(pgrep -c -P "$job" launcher_fake)" = 1 ]; }
why=$(within 20 trainer_alone || echo "the script has not ended ")
touch "$pids/go"
end_job
report "a trainer saves after the script around it has ended" "$(expect 143 "$out" '^saved')$why$(grep 'was killed' "$err")"

# As a scheduler that signals all processes of a job: the script is the first to end.
new_pids
start --device softgpu -n 2 sh -c 'echo $$ >"$1/script$RANK"; "$0" stage 3 step 82 @0 catch 15 "$1/c0" @1 catch 15 "$1/c1" @all say saved stage 4 exit 0; exit $?' "$fake" "$pids"
ready 4
kill -TERM "$(cat "$pids/script0")"
within 20 is_gone "$(cat "$pids/script0")"
kill -TERM "$job"
end_job
report "a script that a scheduler's signal ends before ddprun has it" "$(expect 143)$(
    [ "$(grep -o saved "$out" | wc -l)" = 2 ] || echo "not both have saved ")$(grep -E 'was ended by|was killed' "$err")"

# ---- whose time is over ----
new_pids
start -n 2 --grace 1 --summary-json "$top/end.json" --metrics "$top/metrics" "$fake" stage 3 step 82 @0 catch 15 "$pids/0" hang \
    @1 catch 15 "$pids/1" exit 0
ready 2
kill -TERM "$job"
end_job
report "who saves for too long is killed, and named" "$(expect 143 \
    "$err" '^ddprun: rank 0 \(host .*process [0-9]+.*\) was killed 1 s after SIGTERM, after step 82: it runs or waits in host code; .*--grace N' \
    "$top/metrics" '^ddprun_grace_seconds\{.*\} 1$' "$top/metrics" '^ddprun_signal\{.*\} 15$')$(grep 'rank 1 .*was killed' "$err")$(
    summary_has "grace == 1 and signal == 'TERM' and [(r['signal'], r['killed']) for r in each_rank] == [('KILL', 'grace'), (None, None)]")"
new_pids
start --device softgpu -n 1 --grace 1 sh -c '"$0" stage 3 step 82 catch 15 "$1/0" hang; exit $?' "$fake" "$pids"
ready 1
kill -TERM "$job"
end_job
report "also where the script around it has ended" "$(expect 143 "$err" '^ddprun: rank 0 .* was killed 1 s after SIGTERM, after step 82: ')"
new_pids
start -n 2 --grace 1 "$fake" stage 3 step 82 wait "DDP_MEAN (t.c:8)" catch 15 "$pids/$$" @1 catch 15 "$pids/1" hang @0 catch 15 "$pids/0" hang
ready 1
kill -TERM "$job"
end_job
report "a rank that waited is named with its place" "$(expect 143 \
    "$err" '^ddprun: rank 1 .* was killed 1 s after SIGTERM, after step 82: it waits at DDP_MEAN \(t.c:8\) \([0-9.]+ s\)')"
new_pids
start -n 2 --grace 0 "$fake" stage 3 ignore 15 pid "$pids" hang
ready 2
kill -TERM "$job"
end_job
report "--grace 0: at once, without a line" "$(expect 143)$(grep 'was killed' "$err")$(all_gone "$pids" || echo "ranks are left")"
new_pids
start -n 2 "$fake" stage 3 ignore 15 pid "$pids" hang
ready 2
kill -TERM "$job"
within 20 grep -q 'SIGTERM: ending' "$err"
again() { kill -TERM "$job"; all_gone "$pids"; } # one that comes in the same moment as the first is the first
within 20 again
end_job
report "a second signal: at once, without a line" "$(expect 143)$(grep 'was killed' "$err")$(all_gone "$pids" || echo "ranks are left")"
# As timeout(1) sends a signal: to the process, and to its group. Two signals wait while it is stopped, and are read together.
new_pids
start -n 2 "$fake" stage 3 pid "$pids" ignore 15 catch 2 "$pids/c$$" await "$pids/go" say saved exit 0
ready 3
kill -STOP "$job"
for name in TERM INT CONT; do kill -"$name" "$job"; done
within 20 grep -q 'ending 2 ranks' "$err"
touch "$pids/go"
end_job
report "a signal that comes twice at once is one" "$(expect 130 "$out" '^saved')"
new_pids
start -n 2 --grace 86400 "$fake" stage 3 pid "$pids" child "$pids" catch 15 "$pids/c" exit 0
ready 5
kill -TERM "$job"
end_job
report "what ranks leave running has less time than ranks" "$(expect 143)$(all_gone "$pids" || echo "processes are left")"

# ---- who waits in vain ----
new_pids
start -n 3 --summary-json "$top/end.json" "$fake" stage 3 step 82 @0 pid "$pids" catch 15 "$pids/c0" step 83 wait "DDP_STEP (t.c:8)" hang \
    @1 catch 15 "$pids/c1" exit 0 @2 pid "$pids" catch 15 "$pids/c2" await "$pids/go" say saved exit 0
ready 5
kill -TERM "$job"
within 20 is_gone "$(cat "$pids/rank0")" || echo "# rank 0 is left"
why=$(lives "$(cat "$pids/rank2")" || echo "the rank that saves was ended ")
touch "$pids/go"
end_job
report "who waits for a rank that has left is ended, and who saves is not" "$(expect 143 "$out" '^\[2\] saved' \
    "$err" "^ddprun: ranks stopped at different steps after SIGTERM \(rank 1 after step 82, rank 0 in step 84\): rank 0 .*process [0-9]+.* waits at DDP_STEP .*$recipe")$why$(
    summary_has "[r['killed'] for r in each_rank] == ['waiting', None, None]")"
new_pids
start -n 3 "$fake" stage 3 step 82 @0 dwell 15 "$pids/go" "$pids/saved" wait "DDP_STEP (t.c:8)" pid "$pids" hang \
    @1 pid "$pids" exit 0 @2 pid "$pids" catch 15 "$pids/c2" wait "DDP_STEP (t.c:8)" hang
ready 4
kill -TERM "$job"
within 20 grep -q 'rank 2 .*so it was ended' "$err"
within 20 is_gone "$(cat "$pids/rank2")"
why=$(lives "$(cat "$pids/rank0")" || echo "it was ended ")
touch "$pids/go"
end_job
report "a rank that saves in its handler does not wait" "$(expect 143)$why$([ -e "$pids/saved" ] || echo "not saved ")$(grep -E 'rank 0 in step|was killed' "$err")"

# ---- signals that are the ranks' own ----
# c41_requeue: a script whose trap notes the signal, and that ends with 42 once its trainer has ended.
cat >"$top/requeue.sh" <<'END'
got=0
trap 'got=1' USR1
"$@" &
trainer=$!
while kill -0 "$trainer" 2>/dev/null; do wait "$trainer"; done
[ "$got" = 0 ] || exit 42
END
cat >"$top/alone.py" <<'END' # a trainer without ddprun
import signal, sys, time
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
open(sys.argv[1], "w").close()
while not stop: time.sleep(0.01)
END
new_pids
bash "$top/requeue.sh" python3 "$top/alone.py" "$pids/0" &
job=$!
started+=("$job")
ready 1
kill -USR1 "$job" "$(pgrep -P "$job")"
end_job
report "a script with a trap, alone" "$(expect 42)"
new_pids
start --device softgpu -n 2 bash "$top/requeue.sh" "$fake" stage 3 step 5 @0 catch 10 "$pids/0" @1 catch 10 "$pids/1" @all stage 4 exit 0
ready 2
kill -USR1 "$job"
end_job
report "a script with a trap, under ddprun" "$(expect 42 "$err" '^ddprun: rank [01] ended with exit code 42')$(grep 'no handler' "$err")"
new_pids
start --device softgpu -n 2 bash -c '"$@"; exit $?' sh "$fake" stage 3 step 5 @0 catch 10 "$pids/0" @1 catch 10 "$pids/1" @all stage 4 exit 0
ready 2
kill -USR1 "$job"
end_job
report "a script without a trap lives on, its trainer gets the signal" "$(expect 0)$(grep 'no handler' "$err")"
new_pids
start -n 2 "$fake" stage 3 step 5 @0 catch 10 "$pids/0" catch 10 "$pids/a0" catch 10 "$pids/b0" stage 4 exit 0 @1 pid "$pids" await "$pids/go" stage 4 exit 0
ready 2
for file in 0 a0; do
    kill -USR1 "$job"
    within 20 test -e "$pids/$file"
done
kill -USR2 "$job"
within 20 grep -q 'no handler for SIGUSR2' "$err"
touch "$pids/go"
kill -USR1 "$job"
why=$([ "$(grep -c "^ddprun: rank 1 (process $(cat "$pids/rank1")) has no handler for SIGUSR1: it was not sent" "$err")" = 1 ] || echo "not one line of SIGUSR1 ")
end_job
report "a rank without a handler does not get the signal, and is named once" "$(expect 0)$why"

# ---- ranks that stop at different steps because of them ----
new_pids
start -n 3 --summary-json "$top/end.json" "$fake" stage 3 step 82 @0 catch 10 "$pids/c0" step 83 wait "DDP_STEP (t.c:8)" hang \
    @1 catch 10 "$pids/c1" exit 0 @2 pid "$pids" catch 10 "$pids/c2" await "$pids/go" say saved exit 0
ready 4
kill -USR1 "$job"
within 20 grep -q 'different steps' "$err"
why=$(lives "$(cat "$pids/rank2")" || echo "the rank that saves was ended ")
touch "$pids/go"
end_job
report "SIGUSR1: ranks that stop at different steps, who saves keeps the time" "$(expect 1 "$out" '^\[2\] saved' \
    "$err" "^ddprun: ranks stopped at different steps after SIGUSR1 \(rank 1 after step 82, rank 0 in step 84.*$recipe")$why$(
    grep 'same number of steps' "$err")$(summary_has "signal == 'USR1' and exit_code == 1 and 'different steps' in reason")"
new_pids
start -n 2 --summary-json "$top/end.json" "$fake" stage 3 step 82 @0 catch 10 "$pids/c0" await "$pids/go" step 83 wrong 83 fail "in step 83 add wrote gradient 2" hang \
    @1 pid "$pids" catch 10 "$pids/c1" exit 0
ready 3
kill -USR1 "$job"
within 20 is_gone "$(cat "$pids/rank1")"
touch "$pids/go"
end_job
report "SIGUSR1: a step that was judged wrong keeps its line, and names the last right one" "$(expect 1 \
    "$err" '^ddprun: rank 0.*: in step 83 add wrote gradient 2.* Step 82 is the last that is known to be right: continue from a checkpoint of step 82')$(
    grep 'different steps' "$err")$(summary_has "last_right_step == 82 and 'different steps' not in reason")"
run -n 2 "$fake" stage 3 step 82 @0 step 83 wait "DDP_STEP (t.c:8)" hang @1 exit 0
report "without a signal that is a mistake" "$(expect 1 "$err" 'same number of steps')$(grep -E "$recipe" "$err")"

report "no folder is left" "$(no_folders_left)"
finish
