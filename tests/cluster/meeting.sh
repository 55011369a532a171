#!/usr/bin/env bash
# meeting.sh BUILD - what one host's ddprun (--nnodes) says until all ranks have met: a rank that leaves is named at once, and takes its
# place when it is started again; who waits in vain hears why, whichever of its ranks listens; so does each where a host was started twice;
# another version is named. A ddprun that is killed is not taken for a user's signal. Nothing is left.
source "$(dirname "$0")/launched.sh"
export HOME=$work/home
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}" JOB_COMPLETION_INDEX
port=$(free_port)
python=(env -u DDPRUN_TEST_MARK python3)

# begin NAME NODE NODES ARGUMENTS...: the ddprun of a host, in the background; its id is in pid_NAME, its output in $work/NAME.
begin() {
    local name=$1 node=$2 nodes=$3
    shift 3
    timeout -k 2 "$(patient "$limit")" "${runtime[@]}" "$ddprun" --nnodes "$nodes" --node-rank "$node" --master "${master:-localhost}:$port" "$@" \
        </dev/null >"$work/$name" 2>&1 &
    declare -g "pid_$name=$!"
}
own_pid() { # of the ddprun that timeout has started
    local of=pid_$1
    cat "/proc/${!of}/task/${!of}/children"
}
ends_with() { # NAME CODE: any but 0 is "fails"
    local of=pid_$1 own
    wait "${!of}"
    own=$?
    if [ "$2" = fails ]; then [ "$own" -ne 0 ]; else [ "$own" -eq "$2" ]; fi && return
    echo "exit code $own: $(cat "$work/$1")"
    return 1
}
says() { grep -qE "^ddprun: $2" "$work/$1"; }
lines() { [ "$(grep -c '^ddprun: ' "$work/$1")" -eq "$2" ]; }
# Challenge and welcome, of 40 and 32 bytes, have reached a process.
is_taken_in() { [ "$(ss -Htin state established "dport = :$port" | grep -o 'bytes_received:[0-9]*' | cut -d : -f 2 | sort -n | tail -n 1)" -ge 72 ] 2>/dev/null; }
train=(-q --device softgpu --unannotated true)

# ---- a rank leaves, and comes back ----
for signal in TERM KILL; do
    begin first 0 3 -n 1 "${train[@]}"
    check "$signal: the first waits" within 20 bash -c "ss -Hltn 'sport = :$port' | grep -q ."
    begin second 1 3 -n 1 "${train[@]}"
    check "$signal: the second has come" within 20 is_taken_in
    kill "-$signal" "$(own_pid second)"
    check "$signal: the second ends" ends_with second fails
    check "$signal: the first says that it has left" within 10 says first 'rank 1 left before all ranks had met; waiting for it to be started again'
    begin second 1 3 -n 1 "${train[@]}"
    begin third 2 3 -n 1 "${train[@]}"
    for name in first second third; do
        check "$signal: started again, it is taken in: $name" ends_with "$name" 0
    done
    check "$signal: one line in all" lines first 1
    nothing_left "$signal"
    port=$((port + 20))
done

# ---- a host that cannot start its ranks tells the others ----
for node in 0 1; do
    other=$((1 - node))
    begin first "$other" 2 -n 2 "${train[@]}"
    begin second "$node" 2 -n 2 -q --device softgpu --unannotated "$work/missing"
    check "node $node lacks the program: it ends" ends_with second 127
    check "... and says so, once" bash -c "[ \$(grep -c '^ddprun: ' '$work/second') -eq 1 ] && grep -q '^ddprun: .*$work/missing' '$work/second'"
    check "... the other ends" ends_with first 127
    check "... and names it" says first "rank [0-3] \\(host .*\\): .*$work/missing"
    nothing_left "node $node lacks the program"
    port=$((port + 20))
done

# ---- who waits in vain ----
rounds=(1)
[ "${DDPRUN_SOAK:-0}" = 0 ] || rounds=({1..8}) # a mistake of order shows in half of the rounds
own=$(hostname -I 2>/dev/null | cut -d ' ' -f 1) # at localhost rank 0 alone may listen
for round in "${rounds[@]}"; do
    master=$own begin first 0 2 -n 4 --timeout 3 "${train[@]}"
    check "in vain, $round: it ends" ends_with first 1
    check "in vain, $round: it names who has not come" says first 'waited 3 s for 4 of 8: ranks 4, 5, 6, 7 to begin'
    check "in vain, $round: one line" lines first 1
done
for round in "${rounds[@]}"; do
    begin first 0 2 -n 2 --timeout 8 "${train[@]}"
    begin twice 0 2 -n 2 --timeout 8 "${train[@]}"
    for name in first twice; do
        check "started twice, $round: $name ends" ends_with "$name" fails
        check "started twice, $round: $name says why" says "$name" 'two processes are rank [01] of this job'
        check "started twice, $round: $name says it once" lines "$name" 1
    done
done
nothing_left "in vain"

# ---- another version, and another user's process that has the name of the one that listens ----
cat >"$work/listen.py" <<'END'
import hashlib, hmac, os, socket, sys
port, version, user = int(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]
mark = hmac.new(b"", b"mark\0" + b"0 port %d" % port, hashlib.sha256).digest()
name = socket.socket(socket.AF_UNIX)
name.bind("\0ddprun-%s-meeting-%s" % (user, mark[:8].hex()))
server = socket.create_server(("", port))
print("ready", flush=True)
held = []
while True:
    held.append(server.accept()[0])
    if version:
        held[-1].sendall(version.ljust(8, b"\0")[:8] + mark[:8] + os.urandom(24))
END
listen() { # VERSION
    rm -f "$work/listener" # of another one, which was ready
    "${python[@]}" "$work/listen.py" "$port" "$1" "$(id -u)" >"$work/listener" 2>&1 &
    listener=$!
    at_exit 'kill "$listener" 2>/dev/null'
    check "${1:-silent}: it listens" within 10 grep -q ready "$work/listener"
}
listen DDPRUN1
begin second 1 2 -n 1 --timeout 30 "${train[@]}"
check "another version: it ends" ends_with second 2
check "... and is named" says second 'the ddprun that listens at localhost, port [0-9]*, is of another version than that of rank 1 .*, protocols 1 and [0-9]+; install the same'
kill "$listener"
wait "$listener" 2>/dev/null
port=$((port + 20))
listen ''
begin first 0 2 -n 1 --timeout 30 "${train[@]}"
begin second 1 2 -n 1 --timeout 30 "${train[@]}"
check "the name of another user's process is another one: they meet" ends_with first 0
check "... both" ends_with second 0
kill "$listener"
wait "$listener" 2>/dev/null
port=$((port + 20))

# ---- a ddprun is killed ----
all_run() { [ "$(find "$pids" -type f ! -name '*.new' | wc -l)" -eq 2 ]; }
for restarts in 0 1; do
    pids=$(mktemp -d "$work/pids-XXXXXX")
    begin first 0 2 -n 1 --max-restarts "$restarts" --heartbeat-timeout 5 "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang
    begin second 1 2 -n 1 --max-restarts "$restarts" --heartbeat-timeout 5 "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang
    check "killed, $restarts restarts: both run" within 30 all_run
    rm "$pids"/*
    kill -KILL "$(own_pid second)"
    check "killed, $restarts restarts: its end" ends_with second fails
    check "killed, $restarts restarts: the other names it" within 20 says first 'rank 1 \(host .*\): the first ddprun of this host, which started those of its ranks, is gone; was it killed'
    [ "$restarts" -eq 0 ] || check "killed, $restarts restarts: it does not begin again" within 20 says first 'no restart: the first ddprun of a host was killed'
    check "killed, $restarts restarts: the other's end" ends_with first fails
    check "killed, $restarts restarts: no word of a signal" bash -c "! grep -q 'SIGTERM: ending' '$work/first'"
    nothing_left "killed, $restarts restarts"
done
# ---- a terminal is closed: the leader of its session alone receives SIGHUP ----
pids=$(mktemp -d "$work/pids-XXXXXX")
begin first 0 2 -n 1 "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang
check "a closed terminal: the ddprun in it ends by SIGHUP" python3 - "$pids/rank1" "${runtime[@]}" "$ddprun" --nnodes 2 --node-rank 1 --master "localhost:$port" \
    -n 1 "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang <<'END'
import os, pty, signal, sys, time
signal.alarm(60)
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 129)
END
check "a closed terminal: and the other one's, too" ends_with first 129
nothing_left "a closed terminal"
begin first 0 2 -n 1 --max-restarts 1 "${train[@]}"
begin second 1 2 -n 1 --max-restarts 2 "${train[@]}"
check "other numbers of restarts: refused" ends_with first 2
check "... by name" says first 'ranks 0 .* and 1 .* were asked for different things: --max-restarts 1 and --max-restarts 2'
check "... by both" ends_with second 2
nothing_left "at the end"
finish
