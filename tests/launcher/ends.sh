#!/bin/bash
# ends.sh BUILD - how a job ends: exit codes, restarts, signals, who trained alone, and the words for it.
#
# The real ddprun, with helper programs for trainers and stubs for the libraries that it preloads. Exits 1 if a case is not ok. Needs no GPU.
source "$(dirname "$0")/lib.sh"

# ---- exit codes ----
gives "exit code of a rank" 3 "$err" '^ddprun: rank 1 ended with exit code 3' -- run -n 2 "$fake" @1 exit 3 @0 hang
gives "a signal" 139 "$err" '^ddprun: rank 1 was ended by SIGSEGV .*after step 12' -- run -n 2 "$fake" stage 3 step 12 @1 kill 11 @0 hang
gives "one rank's exit code" 7 -- run -n 1 "$fake" exit 7
run -n 2 "$fake" stage 2 @1 fail "gradient w2 cannot be averaged
  details" hang @0 hang
report "a rank that says why" "$(expect 1 "$err" '^ddprun: rank 1 before its first step: gradient w2 cannot be averaged$' "$err" '^  details')"
run -n 3 "$fake" stage 3 step 4 @1 follow "rank 0 is gone" hang @2 hang @0 sleep 50 kill 9
report "a rank that only follows is not the cause" "$(expect 137 "$err" 'rank 0 was ended by SIGKILL')"
run -n 2 "$fake" stage 3 step 4 @1 follow "rank 0 does not answer" hang @0 hang
report "a rank that follows, and no other rank fails" "$(expect 1 "$err" 'rank 1 after step 4: rank 0 does not answer')"
new_pids
start_all 3 -n 3 "$fake" stage 3 step 4 pid "$pids" @0 hang @1 await "$pids/rank0.dead" follow "rank 0 is gone" exit 1 @2 hang
kill -KILL "$(cat "$pids/rank0")"
end_job
report "SIGKILL of a rank" "$(expect 137 "$err" '^ddprun: rank 0 was ended by SIGKILL')$(all_gone "$pids" || echo "ranks are left")"
new_pids
start_all 12 -n 4 "$fake" stage 3 ignore 15 child "$pids" daemon "$pids" pid "$pids" hang
kill -KILL "$(cat "$pids/rank2")"
# The promise is 2 s; the rest is for a machine that is busy with other tests.
within 4 all_gone "$pids"
why=$(all_gone "$pids" || echo "processes are left ")
end_job
report "SIGKILL of a rank ends all, also children and who ignores SIGTERM" "$(expect 137)$why"
new_pids
run -n 2 "$fake" stage 3 step 1 child "$pids" daemon "$pids" stage 4
report "a good end leaves no process behind" "$(expect 0)$(grep left "$err")$(all_gone "$pids" || echo "processes are left")"
gives "shells in between" 5 -- run --device softgpu -n 2 sh -c 'sh -c "$0 @1 exit 5 @0 hang"; exit $?' "$fake"
new_pids
run $soft -n 2 sh -c "'$fake' pid '$pids' @1 kill 9 @0 hang; exit 9"
report "shells in between, their children end too" "$(expect 9)$(all_gone "$pids" || echo "processes are left")"
left='^ddprun: rank [01] ended with exit code 0 and left process [0-9]+ \((sh|nohup|launcher_fake_s|sleep)\) running.*`exec`.*`wait`'
gives "a script that waits for its trainer" 0 "$err" '^ddprun: 2 ranks, 9 steps' -- run --device softgpu -n 2 sh -c '"$0" stage 3 step 5 sleep 300 step 9 stage 4 & wait' "$fake"
new_pids
run -n 2 "$fake" stage 3 step 5 daemon "$pids"
report "a trainer that becomes a daemon" "$(expect 1 "$err" "$left")$(all_gone "$pids" || echo "daemons are left")"
# A script that ends in the middle of its trainer's training, with one rank and with two.
for ranks in 1 2; do
    new_pids
    run --device softgpu -n "$ranks" sh -c '"$0" stage 3 step 5 pid "$1" hang &
        until [ -e "$1/rank$RANK" ]; do sleep 0.01; done' "$fake" "$pids"
    report "a script that ends while its trainer trains, $ranks rank(s)" \
        "$(expect 1 "$err" "$left")$(all_gone "$pids" || echo "trainers are left")$(files_in "$pids" "$ranks" || echo "not all trained")"
done
# A script that ends before its trainer has used CUDA; each line leaves it in another way.
for way in '"$@" &' 'nohup "$@" >"$dir/log$RANK" 2>&1 &' '("$@"; exit $?) &'; do
    new_pids
    run --device softgpu -n 2 sh -c "dir=\$1; shift; $way" sh "$pids" "$fake" pid "$pids" sleep 700000 stage 3 hang
    report "a script that ends before its trainer trains: $way" \
        "$(expect 1 "$err" "$left")$(all_gone "$pids" || echo "trainers are left")"
done
# What has entered a session of its own may be the trainer, too: setsid, a script that uses it, a program that becomes a daemon.
for way in 'exec setsid "$0" pid "$1" hang' 'setsid -f "$0" pid "$1" hang; until [ -e "$1/rank$RANK" ]; do sleep 0.01; done'; do
    new_pids
    run --device softgpu -n 2 sh -c "$way" "$fake" "$pids"
    report "a trainer in another session before it trains: $way" \
        "$(expect 1 "$err" "$left")$(grep 'side by side' "$err")$(all_gone "$pids" || echo "processes are left")"
done
new_pids
run -n 2 "$fake" daemon "$pids"
report "a daemon before it trains" "$(expect 1 "$err" "$left")$(all_gone "$pids" || echo "processes are left")"
run --device softgpu -n 2 sh -c 'setsid -f sleep 0.3'
report "what enters another session and ends soon is waited for" "$(expect 0)$(grep left "$err")"
new_pids
run --device softgpu -n 2 sh -c 'setsid -f "$0" pid "$1" hang; exec "$0" stage 3 step 5 await "$1/rank$RANK" stage 4' "$fake" "$pids"
report "a helper in another session ends with the job that has trained" "$(expect 0)$(grep left "$err")$(all_gone "$pids" || echo "processes are left")"
new_pids
run --device softgpu -n 2 sh -c 'sleep 700 & echo $! >"$0/$RANK"' "$pids"
report "what is left behind and trains nowhere is ended, and named" "$(expect 1 "$err" "$left")$(all_gone "$pids" || echo "processes are left")"
new_pids
run -n 2 "$fake" @1 child "$pids" exit 0 @0 stage 3 hang
report "loaders of a program that has ended are no trainers" \
    "$(expect 1 "$err" '^ddprun: rank 1 ended with exit code 0 and left process [0-9]+')$(all_gone "$pids" || echo "processes are left")"
new_pids
run -n 2 "$fake" @1 daemon "$pids" exit 0 @0 stage 3 hang
report "also those in a session of their own" \
    "$(expect 1 "$err" '^ddprun: rank 1 ended with exit code 0 and left process [0-9]+')$(all_gone "$pids" || echo "processes are left")"
run --device softgpu -n 2 sh -c '[ "$RANK" = 1 ] || exec sleep 1; sleep 0.3 &'
report "what is left behind and ends soon is waited for" "$(expect 0)$(grep left "$err")"
run --device softgpu -n 2 sh -c '[ "$RANK" = 0 ] || exit 4; sleep 700 & echo $! >"$0/0"' "$pids"
report "and does not hold up a failure" "$(expect 4 "$err" '^ddprun: rank 1 ended with exit code 4')$(all_gone "$pids" || echo "processes are left")"
new_pids
start_all 2 --device softgpu -n 2 sh -c 'sleep 700 & echo $! >"$0/$RANK"' "$pids"
kill -TERM "$job"
end_job
report "nor a signal" "$(expect 143)$(all_gone "$pids" || echo "processes are left")"
# What is left behind and ends is not kept until the job does: neither before a rank has ended nor after.
mkdir "$top/orphans"
cat >"$top/orphans.sh" <<'END'
if [ "$RANK" = 1 ]; then
    echo $$ >"$1/rank1"
    until [ -e "$1/before" ]; do sleep 0.01; done
    exit 0
fi
leave_orphans() {
    for i in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ >"$0"' "$1/$2$i" &); done
    looks=0
    for i in 1 2 3 4 5 6 7 8; do
        until [ -s "$1/$2$i" ] && ! grep -q "^PPid:.$PPID\$" "/proc/$(cat "$1/$2$i")/status" 2>/dev/null; do
            [ $((looks += 1)) -lt 2000 ] || exit 9
            sleep 0.01
        done
    done
}
leave_orphans "$1" first
touch "$1/before"
until [ -s "$1/rank1" ] && grep -q "State:.Z" "/proc/$(cat "$1/rank1")/status"; do sleep 0.01; done
leave_orphans "$1" second
END
gives "orphans of ranks are taken away when they end" 0 -- run --device softgpu -n 2 sh "$top/orphans.sh" "$top/orphans"

# ---- restarts ----
run -n 1 --max-restarts 2 "$fake" env DDPRUN_RESTART exit 7
why=$(expect 7 "$err" "^ddprun: restart 2 of 2: DDPRUN_RESTART=2 tells $fake to continue from its checkpoint; ddprun does not check that\$" "$out" '^DDPRUN_RESTART=2')
[ "$(grep -c '^DDPRUN_RESTART' "$out")" = 3 ] || why+="$(grep -c '^DDPRUN_RESTART' "$out") runs "
report "--max-restarts" "$why$(no_folders_left)"
DDPRUN_RESTART=2 _DDPRUN_RESTARTED=1:2 run -n 1 --max-restarts 1 "$fake" env DDPRUN_RESTART env _DDPRUN_RESTARTED exit 7
why=$(expect 7 "$err" '^ddprun: restart 1 of 1' "$out" '^DDPRUN_RESTART unset' "$out" '^DDPRUN_RESTART=1')
report "restarts of a ddprun around this one are not its own" "$why$(grep RESTARTED= "$out")$(no_folders_left)"
gives "--restart-delay" 7 "$err" '^ddprun: restart 1 of 1 in 1 s: DDPRUN_RESTART=1 tells ' "$out" '^DDPRUN_RESTART=1' -- \
    run -n 1 --max-restarts 1 --restart-delay 1 "$fake" env DDPRUN_RESTART exit 7
start -n 1 --max-restarts 1 --restart-delay 80000 "$fake" exit 7
within 20 grep -q 'restart 1 of 1 in 80000 s' "$err"
kill -TERM "$job"
end_job
report "a signal ends the wait for a restart" "$(expect 7 "$err" '^ddprun: no restart: a signal ended the job')$(no_folders_left)"
run -n 2 --max-restarts 2 "$fake" exit 0
report "no restart of what went well" "$(expect 0)$(grep restart "$err")"
run --max-restarts 2 --bucket-mb 0 "$fake"
report "no restart of what cannot be started" "$(expect 2)$(grep restart "$err")"
TMPDIR=$top/absent run --max-restarts 2 "$fake"
report "nor of what cannot be prepared" "$(expect 1 "$err" 'cannot use')$(grep restart "$err")"
# Whatever a rank ends with, also where ddprun itself uses that number, or a signal at ddprun would have given it.
for end in exit:2:2 exit:127:127 kill:2:130 kill:15:143; do
    IFS=: read -r verb number code <<<"$end"
    run -n 1 --max-restarts 1 "$fake" env DDPRUN_RESTART "$verb" "$number"
    report "a restart after a rank's $verb $number" "$(expect "$code" "$err" '^ddprun: restart 1 of 1' "$out" '^DDPRUN_RESTART=1')"
done
# A signal that comes while the job ends already: here it cannot leave before its output is read.
full restarted
env "$ddprun" -n 2 --max-restarts 1 "$fake" @1 hang @0 say "words" exit 3 >"$top/restarted" 2>"$top/err" </dev/null &
job=$!
started+=("$job")
err=$top/err
within 20 grep -q 'rank 0 ended with exit code 3' "$err" || not_ok "the job ends" "no reason on stderr"
kill -TERM "$job"
end_job
report "no restart after a signal while the job ended" "$(expect 3 "$err" '^ddprun: no restart: a signal')$(no_folders_left)"
# What the attempt before had: its sockets, what libraries put into the environment.
run --device softgpu -n 1 --max-restarts 2 sh -c 'echo "HWLOC ${HWLOC_COMPONENTS-unset}, $(readlink /proc/$PPID/fd/* | grep -c socket) sockets"; exit 7'
why=$(expect 7 "$err" '^ddprun: restart 2 of 2' "$out" '^HWLOC unset, [1-9]')
[ "$(sort "$out" | uniq -c | grep -c ' 3 ')" = 1 ] || why+="not alike: $(cat "$out") "
report "a restart begins anew" "$why$(no_folders_left)"

# ---- ends from outside ----
for name in INT:130 TERM:143 HUP:129 QUIT:131; do
    new_pids
    start_all 2 -n 2 --max-restarts 1 "$fake" stage 3 pid "$pids" hang
    kill -"${name%:*}" "$job"
    end_job
    report "SIG${name%:*} ends all, for good" "$(expect "${name#*:}" "$err" "^ddprun: SIG${name%:*}: ending 2 ranks" "$err" '^ddprun: no restart')$(all_gone "$pids" || echo "ranks are left")$(no_folders_left)"
done
cat >"$top/twice.py" <<'END' # a byte for each signal, also for those that come together
import os, select, signal, sys, time
got, tells = os.pipe2(os.O_NONBLOCK)
signal.set_wakeup_fd(tells)
signal.signal(signal.SIGTERM, lambda *_: None)
print(os.getpid(), file=open(sys.argv[1] + "/rank" + os.environ["RANK"], "w"))
select.select([got], [], [])
time.sleep(0.3)
sys.exit(os.read(got, 9) != bytes([signal.SIGTERM]) and open(sys.argv[1] + "/twice", "w").write("twice"))
END
new_pids
start_all 6 --device softgpu -n 6 python3 "$top/twice.py" "$pids"
kill -TERM "$job"
end_job
report "each rank receives a signal once" "$(expect 143)$(cat "$pids/twice" 2>/dev/null)"
# A scheduler warns of the end of the time in this way; who does not expect it ends as without ddprun.
new_pids
start -n 2 "$fake" stage 3 @0 catch 10 "$pids/0" catch 12 "$pids/2" say saved @1 catch 10 "$pids/1" catch 12 "$pids/3" @all stage 4 exit 0
why=
for name in USR1:0:1 USR2:2:3; do
    within 20 test -e "$pids/$(cut -d: -f2 <<<$name)" && within 20 test -e "$pids/$(cut -d: -f3 <<<$name)" || why+="no SIG$name "
    kill -"${name%%:*}" "$job"
done
end_job
report "SIGUSR1 and SIGUSR2 are the ranks'" "$(expect 0 "$out" '^saved')$why$(no_folders_left)"
has_child() { [ -n "$(cat "/proc/$job/task/$job/children" 2>/dev/null)" ]; }
for tool in scout check; do
    start --device softgpu $tool sleep 1
    within 20 has_child
    kill -USR1 "$job"
    end_job
    report "SIGUSR1 does not end ddprun ${tool%% *}" "$([ "$rc" -lt 128 ] || echo "exit code $rc ")$(no_folders_left)"
done
new_pids
start_all 2 -n 2 "$fake" stage 3 ignore 2 pid "$pids" hang
kill -INT "$job"
within 20 grep -q SIGINT "$err"
again() { kill -INT "$job"; all_gone "$pids"; }
within 3 again
why=$(all_gone "$pids" || echo "ranks that ignore SIGINT are left ")
end_job
report "a second Ctrl-C kills" "$(expect 130)$why"
new_pids
start_all 4 -n 2 --device softgpu sh -c 'sleep 700 & echo $! >"$1/loader$RANK"; exec "$0" stage 3 pid "$1" hang' "$fake" "$pids"
kill -KILL "$job"
why=$(within 10 all_gone "$pids" || echo "processes are left ")
end_job
report "SIGKILL of the launcher ends the ranks and what they have started" "$why"
report "and removes the job folder" "$(within 10 is_empty "$TMPDIR" || no_folders_left)"
has_guardian() { # the job; sets guardian. A guardian that has not run yet has no name of its own.
    for guardian in $(cat "/proc/$job/task/$job/children"); do
        [ "$(cat "/proc/$guardian/comm")" != ddprun-guardian ] || return 0
    done
    return 1
}
# While ddprun makes its last files the guardian is still there: no reader takes the summary.
mkfifo "$top/summary"
start -n 2 --summary-json "$top/summary" "$fake" exit 0
within 20 grep -q '^ddprun: ' "$err"
kill -KILL "$job"
end_job
report "SIGKILL of the launcher after the ranks' end removes the job folder, too" "$(expect 137)$(within 10 is_empty "$TMPDIR" || no_folders_left)"
new_pids
start_all 2 -n 2 "$fake" pid "$pids" await "$pids/go"
within 20 has_guardian
kill -STOP "$guardian"
touch "$pids/go"
end_job
report "a stopped guardian does not hold the end" "$(expect 0)$(within 10 is_gone "$guardian" || echo "the guardian is left ")$(no_folders_left)"
# Where the guardian is killed, too, the folder stays until the next launcher.
new_pids
start_all 2 -n 2 "$fake" pid "$pids" hang
within 20 has_guardian
kill -KILL "$guardian" "$job"
why=$(within 10 all_gone "$pids" || echo "processes are left ")
end_job
why+=$([ "$(find "$TMPDIR" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] || echo "not one folder ")
run "$fake" exit 0
report "the next launcher removes the folder of one whose guardian was killed" "$(expect 0)$why$(no_folders_left)"
new_pids
start_all 2 -n 2 "$fake" pid "$pids" hang
run "$fake" exit 0
report "but not that of a running one" "$([ "$(find "$TMPDIR" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] || echo "folder is gone")"
kill -TSTP "$job"
is_stopped() { grep -q 'State:.T' "/proc/$1/status"; }
why=$(within 10 is_stopped "$(cat "$pids/rank1")" && within 10 is_stopped "$job" || echo "not stopped ")
kill -CONT "$job"
is_running() { ! is_stopped "$1"; }
why+=$(within 10 is_running "$(cat "$pids/rank1")" || echo "does not continue ")
kill -TERM "$job"
end_job
report "Ctrl-Z stops, fg continues" "$(expect 143)$why"

# ---- never alone in silence ----
gives "a rank that never takes part" 1 "$err" '^ddprun: rank 1 ended without taking part' -- run -n 2 "$fake" @0 stage 3 step 5 hang @1 stage 1
gives "a rank that leaves in the middle" 1 "$err" '^ddprun: rank 1 left with exit code 0 after step 5' -- run -n 2 "$fake" stage 3 step 5 @1 exit 0 @0 step 6 hang
gives "but all may leave so together" 0 "$err" '^ddprun: 2 ranks, 5 steps' -- run -n 2 "$fake" stage 3 step 5 exit 0
run -n 2 "$fake" stage 3 step 5 @1 exit 0 @0 sleep 2500 say saved exit 0
report "and one after the others, which it did not need any more" "$(expect 0 "$err" '^ddprun: 2 ranks, 5 steps' "$out" '^saved')"
gives "a rank that makes fewer steps" 1 "$err" '^ddprun: rank 1 ended after step 5, others continued to step 6' -- run -n 2 "$fake" stage 3 @1 step 5 stage 4 exit 0 @0 step 6 hang
gives "hashes that differ" 1 "$err" '^ddprun: parameters differ between ranks 0 and 1 after step 5' -- run -n 2 "$fake" stage 3 step 5 check 1 5 0x11 @1 check 1 5 0x12 @all stage 4
# Nor does it take effect where it did in another process of the rank, such as a probe.
new_pids
start --device softgpu -n 2 sh -c 'LD_PRELOAD= "$0" load libcuda.so.1 pid "$2" hang &
    until [ -e "$2/rank$RANK" ]; do sleep 0.01; done; "$1" stage 1; wait' "$plain" "$fake" "$pids"
end_job
report "a preload that did not take effect" "$(expect 1 "$err" '^ddprun: rank [01] uses the CUDA driver in process [0-9]+, which')$(all_gone "$pids" || echo "trainers are left")"
start -n 2 "$fake" load libcuda.so.1 sleep 6500 exit 0
end_job
report "a driver that waits beside our library is left alone" "$(expect 0)"
run --device softgpu -n 2 sh -c "unset LD_PRELOAD; exec '$plain' load libcuda.so.1 sleep 3000"
report "a short program without the preload" "$(expect 1 "$err" '^ddprun: rank [01] used the CUDA driver in a process')"
gives "no rank trained" 0 "$err" '^ddprun: no rank used a GPU under ddprun: nothing was averaged' -- run -n 2 "$fake" stage 1

# ---- the closing lines ----
train="stage 3 step 101 training 2000000 shard 96 overlapped 97 gradients 6 70000 3 elements 17500 18000 check 4 100 0xabc"
{
    run -n 2 "$fake" $train stage 4
    report "closing lines" "$(expect 0 \
        "$err" '^ddprun: wall time [0-9.]+ s; after start-up \(steps 2 to 101\) 50.0 steps/s, 4800 items/s; DDP_SHARD divides a batch of 96 items; on the stand-in for a GPU$' \
        "$err" '^ddprun: 2 ranks, 101 steps, 97 of them overlapped \(their all-reduces were launched during backward, those of the others at DDP_STEP\); 6 gradients, 68.4 KiB per step, in 3 buckets$' \
        "$err" '^ddprun: annotated parameters bitwise identical on all ranks when last compared \(hash 0000000000000abc, compared 4 times, last after step 100 of 101\); 18000 elements of parameters, 17500 of gradients$')$([ "$(wc -l <"$err")" = 3 ] || echo "not 3 lines")"
    waits="exposed 20 9000000 1000000 @1 exposed 20 1000000 1000000 @all"
    run -n 2 "$fake" $train $waits stage 4
    report "closing lines: with what is measured" "$(expect 0 "$err" '^ddprun: exposed communication: 1 ms .*; waiting for rank 1: 8 ms')$(
        [ "$(grep -vc 'ranks wait for each other' "$err")" -eq 4 ] || echo "not 4 lines")"
    run -q -n 2 "$fake" $train $waits stage 4
    report "-q" "$(expect 0)$(cat "$err")"
    new_pids
    start_all 2 -n 2 "$fake" $train pid "$pids" hang
    kill -INT "$job"
    end_job
    report "closing lines: after Ctrl-C" "$(expect 130 "$err" '^ddprun: SIGINT: ending 2 ranks' "$err" '^ddprun: wall time [0-9.]+ s; after start-up \(steps 2 to 101\) 50.0 steps/s' \
        "$err" '^ddprun: 2 ranks, 101 steps' "$err" 'bitwise identical on all ranks when last compared')"
    new_pids
    start_all 2 -q -n 2 "$fake" $train pid "$pids" hang
    kill -INT "$job"
    end_job
    report "closing lines: after Ctrl-C, -q" "$(expect 130 "$err" '^ddprun: SIGINT: ending 2 ranks')$([ "$(wc -l <"$err")" = 1 ] || echo "not 1 line")"
    run -n 2 "$fake" $train kill 9
    report "closing lines: none after a failure" "$(expect 137)$(grep 'wall time' "$err")"
}
run -n 2 "$fake" stage 3 step 100 elements 5 5 check 3 6 0xabc stage 4
report "a last comparison long before the end" "$(expect 0 "$err" '^ddprun: annotated parameters bitwise identical on all ranks when last compared \(hash 0000000000000abc, compared 3 times, last after step 6 of 100\); 5 elements of parameters, 5 of gradients$')"
run -n 2 "$fake" stage 3 step 100 stage 4
report "what was not compared is not claimed" "$(expect 0 "$err" 'parameters were not compared')$(grep identical "$err")"

# ---- reports ----
# Sixteen ranks, one of which fails: two lines about it, nine of its last events, and a line for each other, below the verdict.
mkdir "$top/folder" "$top/closed"
many="-n 16 $fake stage 3 step 7 @3 events 20 kill 11 @all hang"
# in_folder FOLDER ARGS...: runs there, with --failure-report's usual place; what must not be there is a file of a report that is short.
in_folder() {
    cd "$1" || exit 1
    DDPRUN_FAILURE_REPORT='' run_in_front env -u DDPRUN_FAILURE_REPORT "${@:2}"
    cd "$OLDPWD" || exit 1
}
in_folder "$top/folder" "$ddprun" -n 2 "$fake" stage 3 step 7 @1 events 20 kill 11 @0 hang
report "a short report is printed" "$(expect 139 "$err" 'sent bucket 19 early' "$err" '^  rank 0 ')$(ls "$top/folder")"
in_folder "$top/folder" "$ddprun" $many
file=$(cd "$top/folder" && ls)
lines=$(wc -l <"$top/folder/$file")
why=$(expect 139 "$err" '^  rank 3 .* after step 7, ended by SIGSEGV:$' "$err" 'sent bucket 19 early' "$err" '^  rank 0 ' \
    "$err" "^ddprun: the whole report, [0-9]+ lines: $file$" \
    "$top/folder/$file" '^ddprun: rank 3 was ended by SIGSEGV' "$top/folder/$file" 'sent bucket 12 early' "$top/folder/$file" '^  rank 15 ')
[[ $file =~ ^ddprun-report\.[0-9]+\.txt$ ]] || why+="the file is $file "
[ "$(wc -l <"$err")" -le 25 ] || why+="$(wc -l <"$err") lines "
[ "$lines" -gt 25 ] || why+="only $lines lines in the file "
[[ $(head -n 1 "$err") =~ ^ddprun:\ rank\ 3\ was\ ended ]] || why+="the verdict is not the first line "
report "a long report has 25 lines, and a file" "$why"
in_folder "$top/folder" "$ddprun" --failure-report "$top/why.txt" $many
report "--failure-report names the file" "$(expect 139 "$err" "^ddprun: the whole report, [0-9]+ lines: $top/why.txt$" "$top/why.txt" '^  rank 15 ')"
run $many
report "--failure-report -: all of it on stderr" "$(expect 139 "$err" 'sent bucket 12 early' "$err" '^  rank 15 ')$(grep 'whole report' "$err")"
bad "--failure-report in no folder" 2 "cannot write to $top/none/why.txt, in --failure-report" --failure-report "$top/none/why.txt" "$fake"
if unshare -m true 2>/dev/null; then # root may write into any folder but one of a file system that is mounted so
    in_folder / unshare -m bash -c 'mount -t tmpfs -o ro none "$1" && cd "$1" && shift && exec "$@"' _ "$top/closed" "$ddprun" $many
    report "a folder that cannot be written: the file is in TMPDIR" "$(expect 139 "$err" \
        "^ddprun: the whole report, [0-9]+ lines: $TMPDIR/ddprun-report\.[0-9]+\.txt$")$(grep -q '^  rank 15' "$TMPDIR"/ddprun-report.*.txt || echo "it is not there")"
    rm -f "$TMPDIR"/ddprun-report.*.txt
    export XDG_RUNTIME_DIR=$top/runtime # for the job's folder
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    in_folder / unshare -m bash -c 'mount -t tmpfs -o ro none "$1" && cd "$1" && export TMPDIR=$1 && shift && exec "$@"' _ "$top/closed" "$ddprun" $many
    unset XDG_RUNTIME_DIR
    report "nowhere to write: the report is printed whole" "$(expect 139 "$err" '^ddprun: cannot write the report.s file: ' "$err" '^  rank 15 ')"
fi

report "no folder is left" "$(no_folders_left)"
finish
