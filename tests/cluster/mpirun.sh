#!/usr/bin/env bash
# mpirun.sh BUILD - a real mpirun on this host: ranks train as one process does, whatever ends a job is explained once and by name, by
# one line of ddprun, and nothing is left of it: processes, folders.
source "$(dirname "$0")/launched.sh"
source "$(dirname "$0")/open_mpi_5.sh"
command -v mpirun >/dev/null || skip "there is no mpirun here (Debian: openmpi-bin)"
launcher=(mpirun "${root[@]}" --oversubscribe)
asked=any # what is seen of a mpirun that is asked to end: see hit
! open_mpi_5_is mpirun || asked=mute

steps=$((sanitized ? 12 : 60))
options=(--data "$data" --batch 96 --steps "$steps" --seed 5)
works "digits alone" "$digits_plain" "${options[@]}" --save "$work/serial"
for ranks in 2 4; do
    equals_serial "digits, $ranks ranks" "$ranks"
done

for rank in 0 1; do
    job 3 "$ddprun" --device softgpu "$build/tests/trainers/ladder" --steps 12 --fault leave --fault-rank "$rank"
    succeeded "rank $rank leaves by _exit when it is done, another has more to do"
    nothing_left "rank $rank leaves by _exit when it is done"
done

# What the supervisor has open is its own; what the trainer starts would keep it open for longer than either lives.
job_works "descriptors of a rank: read" 2 "$ddprun" --device softgpu sh -c 'readlink /proc/$$/fd/*; true'
check "descriptors of a rank: no socket" [ "$(grep -c 'socket:' "$work/stdout")" -eq 0 ]

# What one supervisor alone writes, and what all of them do.
job 2 "$ddprun" --verify --trace "$work/trace" --page "$work/page" --summary-json "$work/summary" --output "files=$work/output" --interface lo "$digits" "${options[@]}"
succeeded "options: ends well"
check "--verify compares after every step" grep -q "compared $steps times" "$work/stderr"
check "--summary-json: two ranks" grep -q '"ranks": 2' "$work/summary"
check "--trace: a file for each rank" [ -s "$work/trace/rank-0.jsonl" -a -s "$work/trace/rank-1.jsonl" ]
check "--page: one, of both ranks, with the summary's figures" bash -c "grep -q \"id='run-steps_per_second'\" '$work/page' && grep -q '2 ranks on ' '$work/page'"
check "--output files: rank 0's, and rank 1's with nothing in it" [ -s "$work/output/rank-0.out" -a -e "$work/output/rank-1.out" ]
job 2 "$ddprun" --page "$work/none" "$digits" "${options[@]}"
check "--page without --trace: refused" [ "$code" -ne 0 -a ! -e "$work/none" ]
check "... with one line" [ "$(grep -c '^ddprun: --page under another launcher needs --trace DIR, too: ' "$work/stderr")" -eq 1 ]
job_fails "two ranks, one device" 2 '2 ranks want a GPU each, but there is 1' 2 env SOFTGPU_DEVICES=1 "$ddprun" "$digits" "${options[@]}"
job_works "two ranks share a device" 2 env SOFTGPU_DEVICES=1 "$ddprun" --share-gpu "$digits" "${options[@]}"
job 2 "$ddprun" --device softgpu --subst sh -c '"$0" "$@" && "$0" "$@" && env >"$TMPDIR/env-{rank}"' "$digits" "${options[@]}"
succeeded "a script that trains twice"
check "the trainer is no process of mpirun's" bash -c "! grep -E '^(PMIX|PMI|OMPI|PRTE)_' '$TMPDIR'/env-*"
check "the trainer knows its place" grep -q '^LOCAL_RANK=1$' "$TMPDIR/env-1"
rm -f "$TMPDIR"/env-*
job_fails "an invalid --interface" 2 "rank 0 .*no interface .*no-such-interface" 2 "$ddprun" --interface no-such-interface "$digits" "${options[@]}"

ends "exit code" 3 'rank 1 .*exit code 3' stage 2 stage 3 @1 exit 3 @all hang
ends "signal" 139 'rank 2 .*SIGSEGV' stage 2 stage 3 @2 kill 11 @all hang
ends "leaves early" 1 'rank 0 .*left with exit code 0' stage 2 stage 3 @0 exit 0 @all step 1 hang
ends "says why" 1 'rank 1 .*something bad' stage 2 @1 fail 'something bad' @all hang
job_works "exit code 0 when it is done" 3 "$ddprun" "$fake" stage 2 stage 3 step 7 stage 4 exit 0

# A rank that hangs is named by supervisor 0; the report on it is made where it lives, and printed once.
if [ "$sanitized" -eq 0 ]; then
    job 3 "$ddprun" --bucket-mb 0.02 --hang-timeout "$(patient 1 3)" "$build/tests/trainers/hangs" --how host
    sed -i -n '/^ddprun: .*and the job ends/,$p' "$work/stderr" # a warning may stand in front
    failed_with "a rank that hangs" 1 "rank 1 \(host [^ ,]+, process [0-9]+, .*\) after step 7 has made no CUDA call for .*, and the job ends: it runs or waits in host code"
    check "a rank that hangs: its report, from where it lives" \
        [ "$(grep -cE '^  rank 1 \(host .*\) after step 7:|^    its last events|^    its threads:' "$work/stderr")" -eq 3 ]
    check "a rank that hangs: what the others wait for" \
        [ "$(grep -cE '^  rank [02] \(.*, with 7 steps launched: waits for (bucket [0-9]|the comparison of buckets) of step 8' "$work/stderr")" -eq 2 ]
    nothing_left "a rank that hangs"
fi

hit "a supervisor is killed" any 'the ddprun of rank 2 .* is lost' 2 KILL
# On a machine that is very busy it may be stopped before it has said anything, and is given longer then.
limit=150 hit "a supervisor is silent" any 'the ddprun of rank 1 .*(is lost: it has been silent|has not started its rank)' 1 STOP \
    --heartbeat-timeout 3
hit "a supervisor is asked to end" 143 'SIGTERM: ending 3 ranks' 1 TERM
hit "Ctrl-C" "$asked" 'SIG(TERM|INT): ending 3 ranks' launcher INT
hit "mpirun is killed" killed '' launcher KILL
hit "supervisor 0 is killed" any 'rank 1 .* has lost the ddprun of rank 0' 0 KILL

job_fails "-n is mpirun's" 2 'set the number of ranks there' 2 "$ddprun" -n 2 "$fake"
job_fails "wrong option" 2 'unknown .*--no-such-option' 2 "$ddprun" --no-such-option "$fake"
job_fails "--max-restarts is mpirun's" 2 'max-restarts cannot' 2 "$ddprun" --max-restarts 1 "$fake"
job_fails "options differ" 2 'ranks 0 .* and 1 .*--bucket-mb' 2 sh -c 'exec "$0" --bucket-mb $((1 + OMPI_COMM_WORLD_RANK)) "$1"' "$ddprun" "$fake"
job_works "a job of one: our own server" 1 "$ddprun" -n 2 --device softgpu sh -c 'echo "I am $RANK of $WORLD_SIZE"'
check "a job of one: two ranks" grep -q 'I am 1 of 2' "$work/stdout"
job 1 "$ddprun" -n 2 --max-restarts 1 --device softgpu sh -c 'exit $((5 + ${DDPRUN_RESTART:-0}))'
check "a job of one is begun anew" [ "$code" -eq 6 ]
check "a job of one is begun anew: and told so" grep -q '^ddprun: restart 1 of 1' "$work/stderr"
job_works "scripts that wait for their trainers" 2 "$ddprun" --device softgpu sh -c '"$0" --steps 12 & wait' "$build/tests/trainers/ladder"
check "scripts that wait for their trainers: they train" grep -q '^ddprun: 2 ranks, 12 steps' "$work/stderr"
job_fails "scripts that leave something behind" 1 'rank [01] .*and left process [0-9]+ .sleep. running' 2 "$ddprun" --device softgpu sh -c 'sleep 1000 &'
nothing_left "scripts that leave something behind"
# Its terminal is a pretended one, which ends in a file here.
TERM=xterm job 1 "$ddprun" -n 2 --device softgpu sh -c 'echo words'
check "a job of one: no colour in a file" [ "$(grep -c $'\033' "$work/stdout")" -eq 0 ]
finish
