#!/bin/bash
# seen.sh BUILD - what a user sees of a job: the progress line on a terminal and off it, -v, the summary as a file.
#
# The real ddprun with tests/launcher/fake_trainer, which writes the ranks' records itself. Exits 1 if a case is not ok.
source "$(dirname "$0")/lib.sh"
out=$top/out err=$top/err
# run_command COMMAND...: sets rc; what it prints is in $out and $err.
run_command() { run_in_front timeout -k 1 "$limit" "$@"; }

# ---- the progress line on a terminal ----
# Rank 0 writes to the terminal itself: before, while and after the line is there, whole lines and parts of lines.
# on_screen LINES OPTIONS...: trains until the progress line was seen, which is after so many lines of rank 0 (with --progress off
# or -q: at once). What the screen shows in the end is in $out.
on_screen() {
    local i before=() after=() watch=(--watch "ddprun: step 1, loss 0.25" "$top/seen")
    for ((i = 1; i <= $1; ++i)); do before+=(say "line $i"$'\n'); done
    for ((; i <= 45; ++i)); do after+=(say "line $i"$'\n'); done
    shift
    rm -f "$top/seen"
    case "$*" in *off* | *-q*) touch "$top/seen" && watch=() ;; esac
    run_command "$(dirname "$0")/screen.py" "${watch[@]}" "$ddprun" -n 2 "$@" "$fake" stage 3 mean loss 0.25 step 1 \
        @0 "${before[@]}" say "a line in " await "$top/seen" say "two halves"$'\n' "${after[@]}" \
        @1 await "$top/seen" @all step 2 stage 4
    sed -i 's/wall time [0-9.]* s/wall time T s/' "$out"
}
on_screen 9 --progress off
why=$(expect 0 "$out" '^line 45$' "$out" '^a line in two halves$' "$out" 'ddprun: 2 ranks, 2 steps')
report "a terminal without the line" "$why"
cp "$out" "$top/plain"
on_screen 9
report "the progress line spoils nothing that rank 0 writes, and is gone in the end" \
    "$(expect 0)$(diff "$top/plain" "$out" | head -5)"
on_screen 30 --progress off
cp "$out" "$top/plain"
on_screen 30
report "also when the terminal is full before it comes" "$(expect 0)$(diff "$top/plain" "$out" | head -5)"

# ---- -v ----
run_command "$ddprun" -v -n 2 "$fake" nccl 22703 stage 3 step 3 sleep 900 stage 4
report "-v: what is started, where, with which NCCL" "$(expect 0 \
    "$err" "^ddprun: starting $fake on [^ ]+, 2 ranks on the stand-in; NCCL: libnccl.so.2; job folder: $top/tmp/ddprun-" \
    "$err" '^ddprun: rank 1 is process [0-9]+, CUDA_VISIBLE_DEVICES: not set, not bound to cores$' "$err" '^ddprun: NCCL 2.27.3$')"
run_command "$ddprun" -n 2 "$fake" nccl 22703 stage 3 step 3 gradients 6 70000 2 shard 96 stage 4
report "the effective batch" "$(expect 0 "$err" '^ddprun: wall time .*; DDP_SHARD divides a batch of 96 items')$(grep 'NCCL 2' "$err")"

# ---- the summary as a file ----
# Every member that docs/man/ddprun.1.in names, with its type, and no other.
cat >"$top/schema.py" <<'END'
import json, re, sys
number, text, maybe = (int, float), str, type(None)
top = {"ddprun_summary": int, "ddprun_version": text, "nccl_version": (text, maybe), "exit_code": int, "reason": (text, maybe), "program": (text, maybe), "arguments": list,
       "begin": (text, maybe), "end": (text, maybe), "ranks": int,
       "seconds": float, "restarts": int, "attempts": list, "grace": int, "signal": (text, maybe), "trainings": int, "steps": int, "overlapped_steps": int, "repaired_steps": int, "repaired_buckets": int, "trusted_steps": int, "graph_steps": int, "batches": (int, maybe), "batches_per_step": (int, maybe), "lost_batches": int, "alone_batches": int, "alone_updates": int, "turn_rounds": int, "turn_batches": int, "turn_operations": int, "turn_left_out": int, "batch_per_pass": (int, maybe), "gradients": int, "averaged_parameters": int, "averaged_states": int,
       "gradient_bytes": int, "gradient_elements": int, "parameter_elements": int, "buckets": int, "reduce_calls": int, "reduce_bytes": int, "frees_in_backward": int, "loads_in_backward": int, "steps_per_second": (float, maybe),
       "step_ms": (float, maybe), "items_per_second": (float, maybe), "exposed_ms": (float, maybe), "exposed_planned_ms": (float, maybe), "exposed_bound_ms": (float, maybe),
       "slowed_ms": (float, maybe), "commit_wait_ms": (float, maybe), "overlap_off_step": (int, maybe), "waiting_ms": (float, maybe), "waited_for": (int, maybe),
       "noise_scale": (dict, maybe), "unbound": bool, "measured_steps": int, "first_measured": (int, maybe), "last_measured": (int, maybe),
       "nonfinite": (dict, maybe), "warnings": list, "judgement_waits": int, "last_right_step": (int, maybe), "comparisons": int, "noise": int, "parameter_hash": (text, maybe), "means": list, "each_rank": list}
mean = {"name": text, "place": text, "step": int, "value": (float, maybe)}
attempt = {"exit_code": int, "reason": (text, maybe), "seconds": float, "steps": int}
warning = {"key": text, "rank": (int, maybe), "step": (int, maybe), "count": int, "text": text}
rank = {"rank": int, "host": text, "pid": int, "gpu": (text, maybe), "steps": int, "step_ms": (float, maybe), "waited_ms": (float, maybe), "waiting_ms": (float, maybe), "last_steps": int,
        "exit_code": (int, maybe), "signal": (text, maybe), "killed": (text, maybe), "crash_place": (text, maybe),
        "last_line": (text, maybe)}

def hold(what, members, found):
    for name in members.keys() ^ found.keys():
        print(what, "has" if name in found else "lacks", name)
    for name in members.keys() & found.keys():
        if not isinstance(found[name], members[name]):
            print(what, name, "is", repr(found[name]))

def refuse(word):
    print("no JSON:", word)

found = json.load(open(sys.argv[1]), parse_constant=refuse)
hold("the summary", top, found)
for each in found["attempts"]:
    hold("an attempt", attempt, each)
for each in found["warnings"]:
    hold("a warning", warning, each)
for each in found["means"]:
    hold("a mean", mean, each)
for each in found["each_rank"]:
    hold("a rank", rank, each)
page = open(sys.argv[2]).read().replace("\\", "")
for name in {*top, *mean, *attempt, *rank}:
    if not re.search(r"^\.B " + name + "$", page, re.M):
        print("the manual does not name", name)
for condition in sys.argv[3:]:
    if not eval(condition, {}, found):
        print("not", condition, "in", found)
END
# summary FILE CONDITION...
page=$(dirname "$0")/../../docs/man/ddprun.1.in
summary() { python3 "$top/schema.py" "$1" "$page" "${@:2}" 2>&1 | head -c 1500; }
if command -v python3 >/dev/null; then
    run_command "$ddprun" -n 2 --summary-json "$top/end.json" "$fake" nccl 22703 shard 96 mean loss 0.25 mean score nan stage 3 \
        step 12 overlapped 9 gradients 6 70000 2 check 3 12 0xabc @0 exposed 8 3000000 500000 @1 exposed 8 2000000 500000 @all stage 4
    report "--summary-json of a good end" "$(expect 0)$(summary "$top/end.json" 'exit_code == 0 and reason is None and ranks == 2' \
        "program == '$fake' and arguments[:2] == ['nccl', '22703'] and begin[10] == 'T' and begin[19:] == 'Z' and begin <= end" \
        'restarts == 0 and [(a["exit_code"], a["reason"], a["steps"]) for a in attempts] == [(0, None, 12)]' \
        'trainings == 1 and steps == 12 and overlapped_steps == 9 and batch_per_pass == 96 and exposed_ms == 2.0 and exposed_planned_ms == 1.5 and exposed_bound_ms == 0.5' \
        'waiting_ms == 1.0 and waited_for == 1 and steps_per_second is None and step_ms is None and items_per_second is None' \
        'measured_steps == 8 and first_measured == 1 and last_measured == 8' \
        'nccl_version == "2.27.3" and parameter_hash == "0000000000000abc"' \
        'means[0]["name"] == "loss" and means[0]["value"] == 0.25 and means[1]["value"] is None' \
        'len(each_rank) == 2 and each_rank[1]["rank"] == 1 and each_rank[1]["exit_code"] == 0 and each_rank[1]["pid"] > 0')"
    run_command "$ddprun" -n 3 --summary-json "$top/end.json" "$fake" stage 3 step 21 shard 96 training 2000000 \
        exposed 20 61000000 4000000 @1 exposed 20 3000000 4000000 @all stage 4
    report "a rank that the others wait for" "$(expect 0 \
        "$err" '^ddprun: exposed communication: 3 ms per step \(mean of 20 measured steps\); estimated lower bound for any bucket layout: 4 ms; waiting for rank 1: 58 ms per step, last to arrive in 20 of 20 steps$')$(summary "$top/end.json" \
        'exposed_ms == 3.0 and exposed_planned_ms == 30.5 and exposed_bound_ms == 4.0 and waiting_ms == 58.0 and waited_for == 1' \
        'slowed_ms is None and overlap_off_step is None' \
        'steps_per_second == 10.0 and step_ms == 100.0 and items_per_second == 960.0 and each_rank[0]["waited_ms"] == 61.0' \
        '[(r["waiting_ms"], r["last_steps"]) for r in each_rank] == [(58.0, 0), (0.0, 20), (58.0, 0)]')"
    run_command "$ddprun" -n 2 --summary-json "$top/end.json" "$fake" stage 3 step 21 exposed 20 3000000 4000000 tried 2500000 0 @all stage 4
    report "what averaging costs in all" "$(expect 0 "$err" \
        "^ddprun: exposed communication: 3 ms per step \(mean of 20 measured steps\); .*; kernels slowed by all-reduces: 2.5 ms per step more \(measured against steps without overlap\)\$")$(
        summary "$top/end.json" 'slowed_ms == 2.5 and overlap_off_step is None')"
    run_command "$ddprun" -n 2 "$fake" stage 3 step 21 exposed 20 3000000 4000000 tried 0 0 @all stage 4
    report "what averaging costs where nothing else is seen" "$(expect 0 "$err" \
        '^ddprun: exposed communication: 3 ms per step \(mean of 20 measured steps\); estimated lower bound for any bucket layout: 4 ms$')"
    run_command "$ddprun" -n 2 --summary-json "$top/end.json" "$fake" stage 3 step 21 exposed 20 3000000 4000000 tried 0 17 @all stage 4
    report "overlap that was switched off" "$(expect 0 "$err" \
        '^ddprun: exposed communication: 3 ms per step .*; overlap is off from step 18 on, because steps are shorter without it$')$(
        summary "$top/end.json" 'slowed_ms == 0.0 and overlap_off_step == 17')"
    run_command "$ddprun" --device softgpu -n 2 --max-restarts 2 --summary-json "$top/end.json" sh -c \
        'case $DDPRUN_RESTART in "") set -- step 5 exit 7 ;; 1) set -- step 6 fail "no: 1" ;; *) set -- step 9 stage 4 ;; esac; exec "$0" stage 3 "$@"' "$fake"
    report "all attempts of --max-restarts" "$(expect 0 "$err" '^ddprun: wall time [0-9.]+ s; restarts: 2; on the stand-in for a GPU$')$(summary "$top/end.json" \
        'exit_code == 0 and reason is None and steps == 9 and restarts == 2' \
        '[a["exit_code"] for a in attempts] == [7, 1, 0] and attempts[2]["steps"] == 9' \
        '"exit code 7" in attempts[0]["reason"] and "no: 1" in attempts[1]["reason"] and attempts[2]["reason"] is None')"
    run_command "$ddprun" -n 2 --summary-json "$top/end.json" "$fake" @1 kill 9 @0 hang
    report "--summary-json of a rank that was killed" "$(expect 137)$(summary "$top/end.json" 'exit_code == 137 and "SIGKILL" in reason' \
        'each_rank[1]["signal"] == "KILL" and each_rank[1]["exit_code"] is None and exposed_ms is None and nccl_version is None')"
else
    echo "skip - --summary-json (no python3)"
fi
run_command "$ddprun" --summary-json /dev/stdout "$fake" exit 0
report "--summary-json into what is no file" "$(expect 0 "$out" '"exit_code": *0')"
run_command "$ddprun" --summary-json - --metrics - "$fake" exit 0
report "- is standard output" "$(expect 0 "$out" '"exit_code": *0' "$out" '^ddprun_exit_code{.*} 0$')$(ls ./- 2>/dev/null)"
ln -s end.json "$top/link.json"
(umask 027 && run_command "$ddprun" --summary-json "$top/link.json" "$fake" exit 0 && exit "$rc")
rc=$?
why=$(expect 0)
[ -L "$top/link.json" ] || why+="the link was replaced "
[ "$(stat -c %a "$top/end.json")" = 640 ] || why+="mode $(stat -c %a "$top/end.json") with umask 027 "
report "--summary-json respects a link and the umask" "$why$(find "$top" -name '*.new')"
(umask 027 && run_command "$ddprun" --output "files=$top/files" --trace "$top/trace" "$fake" say one && exit "$rc")
why=$(stat -c %a "$top/files" "$top/trace" "$top/files/rank-0.out" | tr '\n' ' ')
report "so do the files of output and trace" "$([ "$why" = "750 750 640 " ] || echo "modes $why")"
run_command "$ddprun" --output "files=$top/files" --max-restarts 1 "$fake" say again exit 7
why=$(expect 7)$(head "$top"/files/earlier-1/rank-0.out "$top"/files/earlier-2/rank-0.out "$top/files/rank-0.out" | tr -d '\n' | sed "s|$top||g")
report "a restart has files of its own" "$([ "$why" = '==> /files/earlier-1/rank-0.out <==one==> /files/earlier-2/rank-0.out <==again==> /files/rank-0.out <==again' ] || echo "$why")"

# Root in a mount namespace of its own has a file system with no room in it.
if unshare -m true 2>/dev/null && mkdir "$top/full"; then
    cat >"$top/full.sh" <<'END'
mount -t tmpfs -o size=16k,mode=777 none "$1" || exit 77
head -c 100000 /dev/zero >"$1/filler" 2>/dev/null
shift
exec "$@"
END
    run_command unshare -m bash "$top/full.sh" "$top/full" "$ddprun" --summary-json "$top/full/end.json" --output "files=$top/full" "$fake" flood 3000
    [ "$rc" = 77 ] && echo "skip - no room for output (no tmpfs here)" || report "no room for output and summary is said" "$(expect 0 \
        "$err" "^ddprun: cannot write $top/full/end.json, in --summary-json: No space left on device" \
        "$err" "^ddprun: no room is left in $top/full, in --output")"
else
    echo "skip - no room for output (no mount namespace here)"
fi

# A limit of file sizes is no other than a full disk to ddprun itself; the program keeps the signal that goes with it.
run_command bash -c 'ulimit -f 100 && exec "$0" -n 2 "$1" flood 3000 >"$2"' "$ddprun" "$fake" "$top/limited"
report "output beyond the limit of file sizes is said to be lost" "$(expect 0 \
    "$err" "^ddprun: cannot write the ranks' output to stdout: File too large")"
run_command "$ddprun" --device softgpu grep SigIgn /proc/self/status
report "the program ignores no signal for that" "$(expect 0)$(grep SigIgn /proc/self/status | diff - "$out" | head -2)"

finish
