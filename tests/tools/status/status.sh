#!/usr/bin/env bash
# status.sh BUILD - `ddprun status` shows the running jobs of this user: ranks, processes, step, rate, losses, and who waits; of all
# jobs or of one ddprun; it changes nothing of them, and what is no job is said with an exit code.
# shellcheck source=tests/end_to_end/lib.sh
source "$(dirname "$0")/../../end_to_end/lib.sh"

"${runtime[@]}" "$ddprun" -n 2 -q --hang-timeout 0 "$digits" --data "$data" --batch 96 --steps 100000000 --seed 5 >"$work/out" 2>"$work/err" &
job=$!
at_exit 'kill "$job" 2>/dev/null'
check "a job trains" within 60 grep -q 'step 100 ' "$work/out"

run "$ddprun" status "$job"
succeeded "status PID"
check "the ddprun that was asked for" grep -q "^ddprun $job: digits, ranks 0 to 1 of 2$" "$work/stdout"
for rank in 0 1; do
    pid=$(sed -n "s/^  rank $rank (process \([0-9]*\)): step .*/\1/p" "$work/stdout")
    check "the process of rank $rank" grep -qzx "RANK=$rank" "/proc/$pid/environ"
done
# step: the job's, in the last run, of a line with a rate and a loss below 5; empty: there is none.
step() { sed -nE 's/^  step ([0-9]+), .* steps\/s, .*loss ([0-4](\.|,|$)|[0-9.]+e-).*/\1/p' "$work/stdout"; }
first=$(step)
check "steps, their rate and the loss" [ "$first" -ge 100 ]
run "$ddprun" status
succeeded "status"
check "the job's line" grep -q "^ddprun $job: digits, ranks 0 to 1 of 2$" "$work/stdout"
run "$ddprun" status "$job" # others may have jobs, too
check "a later step" [ "$(step)" -gt "$first" ]

kill -STOP "$pid" # rank 1
waits() { "${runtime[@]}" "$ddprun" status >"$work/stdout" && grep -q '^  rank 0 (process [0-9]*): step [0-9]*, waits for .* ([0-9.]* s)$' "$work/stdout"; }
check "a rank that waits" within 30 waits
kill -CONT "$pid"

run "$ddprun" status 1
failed_with "a process that is no ddprun" 1 'process 1 is not a ddprun of this user with a running job'
run "$ddprun" status digits
failed_with "not a number" 2 "'digits' is not a process number"
kill "$job"
wait "$job"
check "the job was not changed" [ $? -eq 143 ]
run "$ddprun" status "$job"
failed_with "a job that has ended" 1 "process $job is not a ddprun"
finish
