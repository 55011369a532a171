#!/usr/bin/env bash
# address.sh BUILD - ddprun that were started as one of several by variables (RANK, WORLD_SIZE, MASTER_ADDR; torchrun's) meet at
# the address, without PMIx: ranks train as `ddprun -n N` does, bit by bit; who does not share the secret is not taken in, and does no
# harm; who does not come is named; jobs side by side at one port do not mix; and nothing is left of any.
source "$(dirname "$0")/launched.sh"
launcher=(bash "$(cd "$(dirname "$0")" && pwd)/by_variables.sh")
export HOME=$work/home
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
secret=$HOME/.config/ddprun/secret

steps=$((sanitized ? 12 : 60))
options=(--data "$data" --batch 96 --steps "$steps" --seed 5)
works "digits alone" "$digits_plain" "${options[@]}" --save "$work/serial"
for ranks in 2 4; do
    equals_serial "digits, $ranks ranks" "$ranks"
done
check "the secret is its owner's alone" [ "$(stat -c %a "$secret")" = 600 ]
works "ddprun -n 4" "$ddprun" -n 4 --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/alone-%d"
check "the bits of ddprun -n 4" cmp "$work/rank-0" "$work/alone-0"

# What torchrun sets besides: its store has the port, and each rank knows its place on the host.
port=$(free_port)
python=(env -u DDPRUN_TEST_MARK python3)
"${python[@]}" -c '
import socket, sys, time
store = socket.socket()
store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
store.bind(("", int(sys.argv[1])))
store.listen(64)
print("ready", flush=True)
time.sleep(600)' "$port" >"$work/store" &
store=$!
at_exit 'kill "$store" 2>/dev/null'
check "a store has the port" within 10 grep -q ready "$work/store"
rm -f "$work"/rank-*
BY_PORT=$port job 4 sh -c 'LOCAL_RANK=$RANK TORCHELASTIC_RUN_ID=none exec "$@"' sh \
    "$ddprun" -v --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/rank-%d"
succeeded "torchrun's variables"
check "torchrun's variables: the bits of ddprun -n 4" cmp "$work/rank-3" "$work/alone-0"
check "-v names the variables" grep -q 'started as one of several processes, by TORCHELASTIC_RUN_ID, RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR' "$work/stderr"
nothing_left "torchrun's variables"

# A gradient is written once more, on all ranks or on rank 1 alone: all ranks send its bucket again.
while read -r mode weights; do
    rm -f "$work/saved"
    job_works "one write more ($mode)" 2 "$ddprun" --bucket-mb 0.004 "$build/tests/trainers/judged" "$mode" "$work/saved"
    check "one write more ($mode): the weights: $(cat "$work/saved")" grep -qx "40 $weights" "$work/saved"
done <<'END'
one -30 -30.75
alone -30 -30.5
END
job 2 "$ddprun" "$build/tests/trainers/judged" weight "$work/saved"
check "a wrong step: exit code 1, not $code" [ "$code" -eq 1 ]
check "a wrong step: the last right one is named" grep -q 'Step 9 is the last that is known to be right' "$work/stderr"
nothing_left "a wrong step"

# Two jobs at one port, and a third that has what the second left: each name is a job of its own.
BY_PORT=$port "${runtime[@]}" "${launcher[@]}" -n 2 "$ddprun" --job one -q "$digits" "${options[@]}" --save "$work/one-%d" >/dev/null 2>"$work/one" &
first=$!
BY_PORT=$port job_works "two jobs at one port: the second" 2 "$ddprun" --job two -q "$digits" "${options[@]}" --save "$work/two-%d"
check "two jobs at one port: the first" wait "$first"
check "two jobs at one port: the same result" cmp "$work/one-0" "$work/two-1"

# What is left over of another launcher leaves no rank alone: Slurm's step counts two, and the environment has a world of one.
BY_PORT=$port job 2 env WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost SLURM_JOB_ID="$$" SLURM_STEP_ID=0 \
    bash -c 'export SLURM_PROCID=$RANK SLURM_LOCALID=$RANK RANK=0; exec "$@"' sh "$ddprun" --device softgpu --unannotated sh -c 'echo "$RANK of $WORLD_SIZE"'
succeeded "Slurm's step, and a world of one in the environment"
check "... 2 ranks" bash -c "grep -q '0 of 2' '$work/stdout' && grep -q '1 of 2' '$work/stdout'"
fails "rank 1, and no size" 2 'RANK=1 says that ddprun is one of several processes, but WORLD_SIZE is not set: each would train alone' env RANK=1 MASTER_ADDR=h1 "$ddprun" "$fake"
run env PMI_RANK=1 RANK=0 WORLD_SIZE=1 MASTER_ADDR=h1 "$ddprun" "$fake"
failed_with "two launchers that contradict each other" 2 'PMI_RANK=1\) without PMIx.*WORLD_SIZE=1, of another launcher, says that it is alone'
works "a pod of an Indexed Job without --nnodes" env JOB_COMPLETION_INDEX=1 "$ddprun" --device softgpu --unannotated true
check "... a line says that it is alone" grep -q '^ddprun: JOB_COMPLETION_INDEX=1, .*this pod trains alone' "$work/stderr"

# srun --gpu-bind: each task sees the GPUs near it, and counts among those that see the same.
while read -r lists devices; do
    job 4 bash -c 'IFS=/ read -ra lists <<<"$0"; export CUDA_VISIBLE_DEVICES=${lists[RANK]} SOFTGPU_DEVICES=4 LOCAL_RANK=$RANK; exec "$@"' "$lists" \
        "$ddprun" --device softgpu --unannotated sh -c 'echo "GPU of $RANK: $CUDA_VISIBLE_DEVICES"'
    check "GPUs by task, $lists: $(grep -oh 'GPU of .*' "$work/stdout" | sort | xargs)" \
        [ "$(grep -oh 'GPU of .*' "$work/stdout" | sort | sed 's/.*: //' | xargs)" = "${devices//,/ }" ]
done <<'END'
0,1/0,1/2,3/2,3 0,1,2,3
0,1/2,3/0,1/2,3 0,2,1,3
0,1,2,3/0,1,2,3/0,1,2,3/0,1,2,3 0,1,2,3
END
job 4 bash -c 'export CUDA_VISIBLE_DEVICES=0,1 SOFTGPU_DEVICES=4 LOCAL_RANK=$RANK SLURM_PROCID=$RANK; exec "$@"' sh "$ddprun" --device softgpu --unannotated true
failed_with "GPUs by task, and too few" 2 '4 ranks want a GPU each, but there are 2 .*; if srun binds tasks to GPUs, add --gpu-bind=none to srun'
nothing_left "GPUs by task"

# ---- who is not taken in ----

wait_line='waited 12 s for 1 of 3: rank 1 to begin'
job 3 sh -c '[ "$RANK" = 1 ] || exec "$@"' sh "$ddprun" --timeout 12 "$fake"
check "a rank that never comes: exit code 1" [ "$code" -eq 1 ]
check "... is named while it is waited for" grep -q '^ddprun: waiting for 1 of 3: rank 1$' "$work/stderr"
check "... and at the end" grep -q "^ddprun: $wait_line" "$work/stderr"
nothing_left "a rank that never comes"

run env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT="$port" "$ddprun" --timeout 2 "$fake"
failed_with "rank 0 never comes" 1 "waited 2 s for a ddprun that listens at localhost, ports $port to $((port + 15)) "
printf 'this is another secret\n' >"$work/other"
chmod 600 "$work/other"
job 2 bash -c 'own=(); [ "$RANK" = 0 ] || own=(--secret-file "$0"); exec "$1" --timeout 14 "${own[@]}" "$2"' "$work/other" "$ddprun" "$fake"
check "another secret: no job" [ "$code" -ne 0 ]
check "... said by the one" grep -qE '^ddprun: the ddprun that listens at localhost, port [0-9]*, does not take in rank 1 \(host .*its secret is not that of .*/other' "$work/stderr"
check "... and by the other" grep -q '^ddprun: waited 14 s for 1 of 2: rank 1 (a ddprun at [0-9].* was refused: .*) to begin' "$work/stderr"
# A process that an attempt before has left.
job 2 sh -c 'TORCHELASTIC_RESTART_COUNT=$((1 - RANK)) exec "$@"' sh "$ddprun" --timeout 3 "$fake"
check "a process of an earlier attempt is not taken in" grep -q '^ddprun: waited 3 s for 1 of 2: rank 1 .*to begin' "$work/stderr"
job 3 sh -c '[ "$RANK" != 2 ] || RANK=1; exec "$@"' sh "$ddprun" --timeout 12 "$fake"
check "a rank that comes twice: each says it" [ "$(grep -c '^ddprun: two processes are rank 1 of this job' "$work/stderr")" -eq 3 ]
check "... and nothing else" [ "$(grep -c '^ddprun: ' "$work/stderr")" -eq 3 ]
nothing_left "a rank that comes twice"
job 2 sh -c '[ "$RANK" = 0 ] || WORLD_SIZE=3; exec "$@"' sh "$ddprun" --timeout 14 "$fake"
check "another number of processes: no job" grep -q 'does not take in rank 1 .*or it does not count 3 processes' "$work/stderr"
check "... and the others are told before the time is over" grep -q '^ddprun: waiting for 1 of 2: rank 1 (a ddprun at [0-9].* was refused: .* compare -n and --nnodes)$' "$work/stderr"
run env RANK=0 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid MASTER_PORT="$port" "$ddprun" --timeout 5 "$fake"
failed_with "rank 0 is given an address that is none" 1 'waited 5 s for 1 of 2: rank 1 \(no.such.host.invalid is not known on this host: .*\) to begin'
run env RANK=1 WORLD_SIZE=2 MASTER_ADDR=no.such.host.invalid MASTER_PORT="$port" "$ddprun" --timeout 2 "$fake"
failed_with "and so is rank 1" 1 'waited 2 s for a ddprun that listens at no.such.host.invalid, ports [0-9]+ to [0-9]+ \(.*\) to begin'
chmod 644 "$secret"
job 2 "$ddprun" "$fake"
check "a secret that others can read: refused" grep -q "^ddprun: other users can read the secret $secret; chmod 600" "$work/stderr"
chmod 600 "$secret"
printf 'short\n' >"$work/short"
run env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost "$ddprun" --secret-file "$work/short" "$fake"
failed_with "a secret of 5 bytes" 2 "the secret $work/short has 5 bytes, and needs 16 at least"
# As Kubernetes has a Secret: links, in a folder that all may write and none may change; then a folder that others can change.
mkdir -m 1777 "$work/pod"
mkdir "$work/pod/..1"
cp "$secret" "$work/pod/..1/secret"
chmod 644 "$work/pod/..1/secret"
ln -s ..1 "$work/pod/..data"
ln -s ..data/secret "$work/pod/secret"
job_works "a secret through links, as Kubernetes has it" 2 "$ddprun" --secret-file "$work/pod/secret" --device softgpu --unannotated true
chmod 777 "$work/pod"
job 2 "$ddprun" --secret-file "$work/pod/secret" --device softgpu --unannotated true
check "a named secret that others can replace: refused, by each" [ "$(grep -c "^ddprun: other users can replace $work/pod/secret, through which" "$work/stderr")" -eq 2 ]
check "... and nothing is trained" [ "$code" -eq 2 ]
chmod 777 "${secret%/*}"
job 2 "$ddprun" "$fake"
check "the user's own secret, which others can replace: refused" grep -q "^ddprun: other users can replace $secret, through which" "$work/stderr"
chmod 700 "${secret%/*}"
rm -f "$work/fifo"
mkfifo "$work/fifo"
run env RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost "$ddprun" --secret-file "$work/fifo" "$fake"
failed_with "a secret that is a FIFO" 2 "cannot read the secret $work/fifo: it is not a regular file"
job 2 "$ddprun" -n 2 "$fake"
check "-n beside the variables: refused at once, by each" [ "$(grep -c '^ddprun: -n 2 was given to ddprun, which was started 2 times by another launcher (WORLD_SIZE=2)' "$work/stderr")" -eq 2 ]

# Strangers: rubbish, silence, and what was recorded of a process that was taken in.
"${python[@]}" - "$port" >"$work/strangers" <<'END' &
import socket, sys, time
held = []
until = time.time() + 60
print("ready", flush=True)
while time.time() < until and len(held) < 60:
    for port in range(int(sys.argv[1]) + 1, int(sys.argv[1]) + 16):
        try:
            stranger = socket.create_connection(("localhost", port), 1)
            if len(held) % 2:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 64)
            held.append(stranger)
        except OSError:
            pass
print("held", len(held), flush=True)
time.sleep(60)
END
strangers=$!
at_exit 'kill "$strangers" 2>/dev/null'
check "strangers try" within 10 grep -q ready "$work/strangers"
# Rank 1 comes when the strangers have.
BY_PORT=$port job 2 bash -c '[ "$RANK" = 0 ] || until grep -q held "$0"; do sleep 0.1; done; exec "$@"' "$work/strangers" \
    "$ddprun" --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/strange-%d"
succeeded "60 strangers at the port: the job ends well"
check "... with the same result" cmp "$work/strange-0" "$work/one-0"
kill "$strangers" "$store"

# What a rank said when it was taken in is recorded, and played to the listener of the next job of the same name and secret.
cat >"$work/replay.py" <<'END'
import os, select, socket, sys, time
at, to, kept, plays = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "play"
def reach():
    while True:
        try:
            return socket.create_connection(("localhost", to), 5)
        except OSError:
            time.sleep(0.05)
if plays:
    said, listener = open(kept, "rb").read(), reach()
    listener.recv(4096)
    listener.sendall(said)
    listener.settimeout(20)
    try:
        answer = listener.recv(4096)
    except ConnectionError:
        answer = b""
    print("answer", len(answer), flush=True)
    sys.exit()
server = socket.create_server(("localhost", at))
print("ready", flush=True)
near = server.accept()[0]
far = reach()
with open(kept, "wb", buffering=0) as record:
    while True:
        for source in select.select([near, far], [], [])[0]:
            got = source.recv(65536)
            if not got:
                sys.exit()
            if source is near:
                record.write(got)
            (far if source is near else near).sendall(got)
END
"${python[@]}" "$work/replay.py" "$((port + 100))" "$((port + 200))" "$work/said" record >"$work/recorder" &
recorder=$!
at_exit 'kill "$recorder" 2>/dev/null'
check "a recorder is there" within 10 grep -q ready "$work/recorder"
BY_PORT=$((port + 200)) job 2 sh -c '[ "$RANK" = 0 ] || MASTER_PORT=$((MASTER_PORT - 100)); exec "$@"' sh "$ddprun" --job replay --device softgpu --unannotated true
succeeded "a job is recorded"
[ "$code" -eq 0 ] || kill "$recorder"
wait "$recorder"
check "... with a rank's whole answer" [ "$(stat -c %s "$work/said")" -gt 80 ]
# Rank 1 comes when what was recorded has been refused.
BY_PORT=$((port + 200)) job 2 bash -c '[ "$RANK" = 1 ] || exec "${@:3}"; "${@:1:1}" "$0" 0 "$MASTER_PORT" "$2" play >"$2.answer"; exec "${@:3}"' \
    "$work/replay.py" "$(command -v python3)" "$work/said" "$ddprun" --job replay --device softgpu --unannotated true
succeeded "what was recorded is played again: the job ends well"
check "... and it was refused" grep -qx 'answer 0' "$work/said.answer"

# Two jobs at one address, each with one process, or one with a typing error: nothing but the address says that they are one.
job 2 sh -c 'exec "$@" --seed $((5 + RANK))' sh "$ddprun" "$digits" --data "$data" --steps 60
check "different commands at an address: exit code 2" [ "$code" -eq 2 ]
check "... one line says it" [ "$(grep -c '^ddprun: ranks 0 (host .*) and 1 (host .*) were started with different commands at the same address' "$work/stderr")" -eq 1 ]
check "... with the one command" grep -q '^  rank 0: .*/digits --data .* --steps 60 --seed 5$' "$work/stderr"
check "... and the other" grep -q '^  rank 1: .*/digits --data .* --steps 60 --seed 6$' "$work/stderr"
nothing_left "different commands"
job_works "different commands of a job that has a name" 2 sh -c 'exec "$@" --local_rank=$RANK' sh "$ddprun" --job one --device softgpu --unannotated true
check "... one warning" [ "$(grep -c '^ddprun: ranks 0 .* and 1 .* were started with different commands$' "$work/stderr")" -eq 1 ]
job_works "what is put in for {rank} is no difference" 2 "$ddprun" --device softgpu --unannotated sh -c true '{rank}'
check "... and no warning" bash -c "! grep -q 'different commands' '$work/stderr'"

# ---- what ends a job ----

ends "exit code" 3 'rank 1 .*exit code 3' stage 2 stage 3 @1 exit 3 @all hang
ends "signal" 139 'rank 2 .*SIGSEGV' stage 2 stage 3 @2 kill 11 @all hang
job 2 "$ddprun" --no-such-option "$fake"
check "wrong options: refused at once by each" [ "$(grep -c '^ddprun: .*no-such-option' "$work/stderr")" -eq 2 ]
job 2 sh -c 'exec "$1" --bucket-mb $((1 + RANK)) "$2"' sh "$ddprun" "$fake"
failed_with "different options" 2 "ranks 0 .* and 1 .* were asked for different things: --bucket-mb 1 and --bucket-mb 2"
nothing_left "at the end"
finish
