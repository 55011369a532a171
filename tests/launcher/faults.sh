#!/bin/bash
# faults.sh BUILD - what a user, another job, a batch system or a cleaner of temporary files does to a running job: it ends with a line that
# names the cause, or goes on unharmed, and leaves no process.
#
# The real ddprun, with helper programs for trainers and stubs for the libraries that it preloads. Exits 1 if a case is not ok. Needs no GPU.
source "$(dirname "$0")/lib.sh"

# signal_ranks NAME: to the ranks that have left their ids in $pids.
signal_ranks() {
    local file
    for file in "$pids"/rank?; do kill -s "$1" "$(cat "$file")"; done
}
# says FILE REGEX: a line of the file matches.
says() { grep -qaE -- "$2" "$1"; }

# ---- a second job with the same folder for its output ----
mkdir "$top/shared"
cat >"$top/talk.sh" <<'END'
echo "FIRST early of $RANK"
: >"$1/here$RANK"
until [ -e "$1/go" ]; do sleep 0.01; done
echo "FIRST late of $RANK"
END
mkdir "$top/signs"
for tee in '' --tee; do
    rm -f "$top"/signs/*
    start $soft -n 2 --output files="$top/shared" $tee sh "$top/talk.sh" "$top/signs"
    within 20 files_in "$top/signs" 2
    first=$out first_err=$err
    "$ddprun" $soft -n 2 --output files="$top/shared" sh -c 'echo SECOND' >"$top/out2" 2>"$top/err2" </dev/null
    second=$?
    : >"$top/signs/go"
    out=$first err=$first_err
    end_job
    why=$(expect 0)
    [ "$second" -eq 2 ] || why+="the second job has exit code $second "
    says "$top/err2" '^ddprun: a running job writes its output into .*, in --output; name another folder$' || why+="the second job said: $(cat "$top/err2") "
    for rank in 0 1; do
        [ "$(cat "$top/shared/rank-$rank.out")" = "FIRST early of $rank"$'\n'"FIRST late of $rank" ] || why+="rank-$rank.out holds: $(cat "$top/shared/rank-$rank.out") "
    done
    report "a second job with the same --output files= is refused${tee:+, with --tee}" "$why"
done
run $soft -n 2 --output files="$top/shared" sh -c 'echo THIRD'
why=$(expect 0)
[ "$(cat "$top/shared/rank-1.out")" = THIRD ] || why+="rank-1.out holds: $(cat "$top/shared/rank-1.out")"
[ "$(cat "$top/shared/earlier-2/rank-0.out")" = "FIRST early of 0"$'\n'"FIRST late of 0" ] || why+="the job before is lost: $(cd "$top/shared" && head -n 3 */*) "
run $soft -n 1 --output files="$top/shared" sh -c 'echo FOURTH'
why+=$(expect 0)
[ "$(cat "$top/shared/rank-0.out" "$top/shared/earlier-3/rank-1.out")" = FOURTH$'\n'THIRD ] || why+="not apart: $(cd "$top/shared" && head -n 3 */*) "
[ ! -e "$top/shared/rank-1.out" ] || why+="a rank of the larger job is there "
report "later jobs have files of their own" "$why"

# ---- ddprun is killed ----
new_pids
start $soft -n 2 sh -c 'setsid sh -c '\''echo $$ >"$0/session$RANK"; exec sleep 700'\'' "$0" & echo $$ >"$0/rank$RANK"; exec sleep 700' "$pids"
within 20 files_in "$pids" 4
kill -KILL "$job"
within 10 all_gone "$pids"
report "SIGKILL of ddprun ends a rank's child in a session of its own, too" "$(all_gone "$pids" || echo "processes are left")"
wait "$job" 2>/dev/null
within 10 is_empty "$TMPDIR"
report "... and its folder goes" "$(no_folders_left)"

# ---- all ranks are stopped ----
new_pids
start_all 2 -n 2 --hang-timeout 3 "$fake" stage 3 step 4 pid "$pids" hang
signal_ranks STOP
end_job
report "all ranks stopped: the time of --hang-timeout counts" \
    "$(expect 1 "$err" 'all ranks that have not ended have been stopped for [3-9] s, and the job ends; rank 0 .*after step 4: it is stopped .*`kill -CONT')$(all_gone "$pids" || echo "processes are left")"
new_pids
start_all 2 -n 2 --hang-timeout 20 "$fake" stage 3 step 4 pid "$pids" await "$pids/go" stage 4
signal_ranks STOP
within 20 says "$err" 'have been stopped for .*the job continues, unless this lasts 20 s'
why=$?
signal_ranks CONT
: >"$pids/go"
end_job
report "... a line comes before, and a job that is continued ends well" "$(expect 0)$([ "$why" -eq 0 ] || echo "no line: $(cat "$err")")"

# ---- signals and files ----
new_pids
start_all 2 -n 2 "$fake" stage 3 pid "$pids" hang
kill -PWR "$job"
end_job
report "SIGPWR asks for the end" "$(expect 158 "$err" '^ddprun: SIGPWR: ending 2 ranks')$(! grep 'is gone' "$err")$(all_gone "$pids" || echo "processes are left")"
new_pids
run $soft -n 2 sh -c 'echo $$ >"$0/$RANK"; [ "$RANK" = 0 ] || : >"$_DDPRUN_JOB_DIR/status"; exec sleep 700' "$pids"
report "a status file that is cut short ends the job, with the cause" \
    "$(expect 1 "$err" "status file in .* was cut short while the job ran")$(all_gone "$pids" || echo "processes are left")$(no_folders_left)"

# ---- names of any bytes ----
odd=$'tr\033[2Jain\377"\\\303\251'
cp "$fake" "$top/$odd"
run -n 2 --metrics "$top/metrics" "$top/$odd" stage 3 step 4 stage 4
report "metrics are UTF-8 without control characters" "$(expect 0)$(python3 - "$top/metrics" <<'END'
import sys
text = open(sys.argv[1], "rb").read().decode()  # fails on bytes that are no UTF-8
if any(ord(c) < 32 and c != "\n" for c in text): print("a control character is in it")
if 'program="tr?[2Jain?\\"\\\\\u00e9"' not in text: print(text[:300])
END
)"

# ---- a place with few files left ----
few_files() {
    mkdir -p "$top/runtime" && chmod 700 "$top/runtime" && mount -t tmpfs -o "nr_inodes=$1,mode=700" none "$top/runtime" || return 77
    XDG_RUNTIME_DIR=$top/runtime "$ddprun" $soft -n 2 "$fake" stage 3 step 4 stage 4
}
export -f few_files
export top ddprun soft fake
if unshare --mount true 2>/dev/null; then
    for inodes in 4 5 6 8 10; do
        run_in_front unshare --mount bash -c "few_files $inodes"
        report "a job starts where XDG_RUNTIME_DIR takes $inodes files" "$(expect 0 "$err" 'ddprun: 2 ranks, 4 steps')"
    done
else
    echo "skip - a job starts where XDG_RUNTIME_DIR takes few files (no mount namespaces here)"
fi
finish
