#!/usr/bin/env bash
# hangs.sh BUILD - a rank that does not continue is named, with what it does, and ends the job; one that is only slow
# does not. What a report says of it is true: the function it sits in, the kernel, the signal, the steps.
source "$(dirname "$0")/lib.sh"
nccl_in_turn
hangs=$build/tests/trainers/hangs
limit=120
ending=$(patient $((sanitized ? 3 : 1)) $((sanitized ? 10 : 3))) # longer than ranks take to start
warning=$((ending < 20 ? 1 : ending / 10))                      # which follows from it
long=$((20 * ending))                                           # for those that continue after a warning

# try COMMAND...: ordinarily a sixth of them; of what is left out nothing is said.
try() {
    code=left_out
    ! in_turn 6 || run "$@"
}
# train WAY OPTIONS...: three ranks, of which rank 1 goes wrong in that way, with short limits.
train() {
    local way=$1
    shift
    try "$ddprun" -n 3 --bucket-mb 0.02 --hang-timeout "$ending" "$@" "$hangs" --how "$way"
}
# says NAME PATTERN...: each pattern is found in a line of stderr.
says() {
    local name=$1 pattern
    shift
    [ "$code" != left_out ] || return 0
    for pattern in "$@"; do
        if ! grep -Eq -- "$pattern" "$work/stderr"; then
            not_ok "$name" "no line matches /$pattern/"
            return
        fi
    done
    ok "$name"
}
# ended NAME CODE PATTERN...: with that exit code, and ddprun says what ended the job.
ended() {
    [ "$code" = left_out ] || check "$1: exit code" [ "$code" -eq "$2" ]
    says "$1" "${@:3}"
}
# has_said PATTERN: the job in the background, or it has ended.
has_said() { grep -q "$1" "$work/stderr" || ! kill -0 "$job" 2>/dev/null; }
place='rank 1 \(host [^ ,]+, process [0-9]+, a device of the stand-in\)'

# An NCCL's RAS server, which the user has turned on, is asked for each report.
cat >"$work/ras.py" <<'END'
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as file:
    file.write("127.0.0.1:%d" % server.getsockname()[1])
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    client = server.accept()[0]
    for answer in b"SERVER PROTOCOL 2\n", b"OK\n", b"Job summary\n  one rank is behind\n":
        client.recv(4096)
        client.sendall(answer)
    client.close()
END
env -u DDPRUN_TEST_MARK python3 -IS "$work/ras.py" "$work/ras.address" &
ras=$!
within 30 test -e "$work/ras.address" || not_ok "the RAS server" "does not start"
export NCCL_RAS_ENABLE=1 NCCL_RAS_ADDR
NCCL_RAS_ADDR=$(<"$work/ras.address")
train host
unset NCCL_RAS_ENABLE NCCL_RAS_ADDR
kill -KILL "$ras" && wait "$ras" 2>/dev/null
says "a rank that hangs in host code: NCCL's RAS is in the report" "^  NCCL's RAS server on this host:" '^      one rank is behind'
ended "a rank that hangs in host code" 1 \
    "^ddprun: $place after step 7 has made no CUDA call for [0-9]+ s: it runs or waits in host code; its last CUDA call was .*; rank [02] waits for (bucket [0-9]|the comparison of buckets) of step 8 .* and 1 other too; a long checkpoint, for example, is not a fault" \
    "^ddprun: $place after step 7 has made no CUDA call for [0-9]+ s, and the job ends: .*--hang-timeout allows $ending s"
says "a rank that hangs in host code: its report" \
    "^  $place after step 7:" 'ago, in step 8: sent bucket 0 early, [0-9]+ bytes' \
    '^  rank 0 \(.*, with 7 steps launched: waits for (bucket [0-9]|the comparison of buckets) of step 8'
if [ "$code" != left_out ] && grep -q 'ptrace is not permitted' "$work/stderr"; then
    ok "a rank that hangs in host code: its stacks # not permitted here, and the report says that"
else
    says "a rank that hangs in host code: its stacks" '^ +[^ ]*(sit|pause)[^ ]*\+0x[0-9a-f]+ \(' '^ +main\+0x[0-9a-f]+ \(hangs\+0x[0-9a-f]+\)'
fi

# Only the watch can see it.
try "$ddprun" -n 3 --bucket-mb 0.02 "$hangs" --how fault
ended "a device that has failed, and a host that makes no call" 1 \
    'rank 1 .*: a kernel of the trainer failed with CUDA_ERROR_ILLEGAL_ADDRESS; CUDA reports it at a later call, here: the watch of what was enqueued'

train crash
ended "a crash" 139 '^ddprun: rank 1 was ended by SIGSEGV \(Segmentation fault\) after step 7' \
    "^  $place after step 7, ended by SIGSEGV:" 'its last CUDA call was cuLaunchKernel' 'sent bucket 0 early' '^  rank [02] .*, with [78] steps? launched: '

for overlap in '' --no-overlap; do
    train closes $overlap
    ended "a rank that closes its descriptors, $overlap" 1 \
        '^ddprun: rank 1 after step [78](: the program has closed ddprun.s descriptors in this rank, so the rank receives nothing from the others at DDP_MEAN| has closed its connection to ddprun, and process [0-9]+ continues)'
    train memory $overlap
    # It may find what little it needs, and end well.
    if [ "$code" != 0 ]; then
        says "a rank without memory: it is named itself, $overlap" '^ddprun: rank 1 (after step|ended with|was ended)'
    fi
done

train early
ended "a rank that leaves one step early" 1 \
    '^ddprun: rank .* waits at the end of the program(,? .*)? after 7 steps|waits at the end of the program, and rank [02] waits for it in the comparison of buckets of step 8'

# No call has come from it, and none but DDP_WORLD_SIZE() from the other, which would wait at the start for 900 s.
try "$ddprun" -n 2 --device softgpu --hang-timeout 0 "$hangs" --how absent
ended "a rank that ends before its first call" 1 '^ddprun: rank 1 ended without taking part, while others did'

train undone
ended "a rank whose device does not end its last step" 1 \
    '^ddprun: rank 1 .*the job ends: its GPU has not finished the work before (bucket [0-9]|the comparison of buckets) of step 12'

if [ "$sanitized" -eq 0 ]; then # a sanitizer finds nothing more in these, and takes long
    train kernel
    ended "a kernel that does not end" 1 \
        "^ddprun: $place after step 7 .* and the job ends: it has waited in cuCtxSynchronize for its GPU for [0-9.]+ s; last kernel launched: .*never_ends"

    train queue --quiet
    ended "a kernel that does not end, and the host continues" 1 \
        "^ddprun: $place after step [78] .* and the job ends: its GPU has not finished the work before (bucket [0-9]|the comparison of buckets) of step 8; last kernel launched: "

    [ "$code" = left_out ] || check "a kernel that does not end, --quiet: warned and ended, by lines of ddprun's only" \
        [ "$(grep -c '^ddprun: rank 1 .* after step [78] ' "$work/stderr") $(grep -c '^  ' "$work/stderr")" = "2 0" ]

    train stop
    ended "a rank that is stopped" 1 "^ddprun: $place after step 7 .* it is stopped \(SIGSTOP, or a debugger\); .kill -CONT [0-9]+. lets it continue"

    SOFTGPU_LINK=latency_us=20000000 train parameter # which they are for 20 s
    ended "a rank that is stopped while parameters are shared" 1 \
        "^ddprun: $place before its first step .* and the job ends: it is stopped .*; rank [02] waits at DDP_PARAMETER number 1"

    # The others are inside a call of NCCL that does not return: in the first collective, in which ranks connect.
    SOFTGPU_LINK=latency_us=20000000 try "$ddprun" -n 3 --timeout "$patience" "$hangs" --how parameter
    ended "a rank's own limit while ranks connect" 1 \
        "^ddprun: $place before its first step keeps the others waiting: .*; rank [02] before its first step: a call of NCCL has waited $patience s for the other ranks" \
        "^  $place before its first step:" '^ +thread [0-9]+ \(hangs\) is stopped:|ptrace is not permitted'

    # Before the process is the rank, and before it has loaded any library of ddprun.
    try "$ddprun" -n 3 --device softgpu --hang-timeout "$ending" \
        sh -c '[ "$RANK" != 1 ] || kill -STOP $$; exec "$0"' "$hangs"
    ended "a rank that is stopped before its start" 1 \
        "^ddprun: $place before its first step has made no CUDA call .* and the job ends: it is stopped .*; rank [02] waits at the start .* and 1 other too" \
        '^ +thread [0-9]+ \(sh\) is stopped:|ptrace is not permitted'

    # None waits for another: said, and said how to end it; not taken for a hang, for kernels may take that long.
    "$ddprun" -n 2 --hang-timeout 10 "$hangs" --how kernels </dev/null >"$work/stdout" 2>"$work/stderr" &
    job=$!
    within "$limit" has_said '^ddprun: no rank has made a CUDA call'
    kill -TERM "$job"
    wait "$job"
    code=$?
    ended "kernels that end on no rank" 143 \
        '^ddprun: no rank has made a CUDA call for [0-9]+ s, and all wait for their own devices: rank 0 \(.* after step 7: it has waited in cuCtxSynchronize for its GPU .*never_ends' \
        '^  rank 0 \(.* after step 7:' '^  rank 1 \('

    # All at their ends, where nothing wakes them.
    for way in pause leave late; do
        train "$way"
        ended "all ranks wait at the end: $way" 1 \
            "^ddprun: rank 0 .* after step 12 has made no CUDA call and used no CPU time for $warning s: .*; 2 others have not continued, either; the job continues, unless this lasts $ending s" \
            "^ddprun: rank 0 .* after step 12 has made no CUDA call .*, and the job ends: its threads wait for each other .*--hang-timeout allows $ending s"
    done

    # What a script does after the program is its own affair: here for longer than a program has at its exit.
    "$ddprun" -n 2 --device softgpu --hang-timeout "$ending" \
        sh -c '"$0"; [ "$RANK" = 1 ] || sleep "$1"' "$hangs" $((ending + 1)) </dev/null >"$work/script.stdout" 2>"$work/script.stderr" &
    job=$!
    train exit
    ended "a rank that hangs at its exit" 1 \
        "^ddprun: $place after step 12 has ended its program cleanly, but its process has not exited for $warning s: .*; the job continues, unless this lasts $ending s" \
        "^ddprun: $place after step 12 has ended its program .*, and the job ends: .*; all others have ended; --hang-timeout allows $ending s" \
        "^  $place after step 12:"
    wait "$job"
    code=$?
    cp "$work/script.stderr" "$work/stderr"
    succeeded "a script that continues after its program"
    check "a script that continues after its program: no warning" [ "$(grep -c 'has not exited' "$work/stderr")" -eq 0 ]

    train bus
    ended "a bus error" 135 '^ddprun: rank 1 was ended by SIGBUS'
fi

# Before it is sure that no rank is on its way, and the job ends all the same: both places are named.
try "$ddprun" -n 2 --bucket-mb 0.02 --hang-timeout "$ending" "$build/tests/trainers/ladder" --fault mean-on-one --fault-step 5 --fault-rank 1
ended "a call that one rank leaves out, and little time" 1 '^ddprun: .*rank 0 .*waits at DDP_MEAN .*waits for (it in )?(bucket [0-9]|the comparison of buckets) of step 6'

# A rank's own limit comes first where the user has set it so; the report then names who kept it waiting.
try "$ddprun" -n 3 --bucket-mb 0.02 --timeout "$patience" "$hangs" --how host
ended "a rank's own limit" 1 "^ddprun: $place after step 7 keeps the others waiting: .*; rank [02] after step 7: (bucket [0-9]|the comparison of buckets) of step 8 has waited $patience s for the other ranks" \
    "^  $place after step 7:" 'it runs or waits in host code'

# What only takes long: rank 0 writes a checkpoint until it has been warned of; then the job continues to its end.
export HANGS_GO_ON=$work/go-on
"${runtime[@]}" "$ddprun" -n 2 --bucket-mb 0.02 --hang-timeout "$long" "$hangs" --how checkpoint --rank 0 \
    </dev/null >"$work/stdout" 2>"$work/stderr" &
job=$!
within "$limit" has_said "^ddprun: rank 0 .* after step .*a long checkpoint, for example, is not a fault: the job continues, unless this lasts $long s"
touch "$HANGS_GO_ON"
wait "$job"
code=$?
succeeded "a slow checkpoint is not ended"
says "a slow checkpoint is warned of, once, and the result is right" 'parameters bitwise identical on all ranks'
check "a slow checkpoint is warned of once" [ "$(grep -c '^ddprun: rank 0 .* after step .*not a fault' "$work/stderr")" -eq 1 ]

# A rank that is stopped where it waits for the others does not hear that they have come; what it said before does not accuse it.
rm "$HANGS_GO_ON"
"${runtime[@]}" "$ddprun" -n 2 -v --bucket-mb 0.02 --hang-timeout "$long" "$hangs" --how mean --rank 0 \
    </dev/null >"$work/stdout" 2>"$work/stderr" &
job=$!
within "$limit" has_said '^ddprun: rank 0 .*rank 1 waits at DDP_MEAN'
stopped=$(sed -n 's/^ddprun: rank 1 is process \([0-9]*\),.*/\1/p' "$work/stderr")
kill -STOP "$stopped"
touch "$HANGS_GO_ON"
sleep 3 # for what must not come: three times the patience of rank 0
kill -CONT "$stopped"
wait "$job"
code=$?
succeeded "a rank that is stopped for a while in DDP_MEAN"

# All wait for something that may come, here a file, for longer than the limit; or compute for so long.
for way in asleep works; do
    rm "$HANGS_GO_ON"
    "${runtime[@]}" "$ddprun" -n 2 --hang-timeout "$ending" "$hangs" --how "$way" </dev/null >"$work/stdout" 2>"$work/stderr" &
    job=$!
    within "$limit" grep -q 'step 12' "$work/stdout"
    sleep $((ending + 2))
    touch "$HANGS_GO_ON"
    wait "$job"
    code=$?
    succeeded "all ranks: $way"
    check "all ranks: $way: no warning" [ "$(grep -c 'has made no CUDA call' "$work/stderr")" -eq 0 ]
done

# Nothing is held up, and no rank waits.
works "a job that goes well" "$ddprun" -n 2 --hang-timeout 200 "$hangs"
check "a job that goes well: no warning" [ "$(grep -c 'has made no CUDA call' "$work/stderr")" -eq 0 ]
finish
