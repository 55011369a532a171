#!/usr/bin/env bash
# two_hosts_nodes.sh BUILD - one ddprun on each of two hosts (--nnodes), and what goes wrong: a link with 1 % loss and 50 ms delay, starts
# apart; a host that cannot begin; a rank or a ddprun that is killed, and a host that is cut off, while the ranks meet, while they train
# and amid a repair: each time one true line on each host that is left, and nothing stays. DDPRUN_SOAK=1: 20 starts, and 30 rounds of ten faults.
source "$(dirname "$0")/cluster.sh"
export HOME=$work/home NCCL_SOCKET_IFNAME=eth0
mkdir -m 700 "$HOME"
soak=${DDPRUN_SOAK:-0}
note_quiet
fake=$build/tests/launcher/launcher_fake_softgpu
port=29500 started_h1="" started_h2=""

# begin HOST ARGUMENTS...: the ddprun of a host, in the background; its id is in started_h1 or started_h2, its output in $work/h1 or h2.
# Its environment has what `place` says.
place=()
begin() {
    local host=$1
    shift
    (hosts_exec "$host" "${runtime[@]}" env "${place[@]}" "$ddprun" --nnodes 2 --node-rank $((${host#h} - 1)) --master "h1:$port" -n 2 --interface eth0 \
        --heartbeat-timeout 5 "$@" </dev/null >"$work/$host" 2>&1) &
    declare -g "started_$host=$!"
}
ends_on() { # HOST CODE: its exit code; any but 0 is "fails"
    local pid=started_$1 own
    wait "${!pid}"
    own=$?
    if [ "$2" = fails ]; then [ "$own" -ne 0 ]; else [ "$own" -eq "$2" ]; fi && return
    echo "exit code $own: $(cat "$work/$1")"
    return 1
}
says() { # HOST PATTERN: one line of ddprun, which matches
    [ "$(grep -c '^ddprun: ' "$work/$1")" -eq 1 ] && grep -qE "^ddprun: .*($2)" "$work/$1" && return
    cat "$work/$1"
    return 1
}
all_run() { [ "$(find "$pids" -type f ! -name '*.new' | wc -l)" -eq 4 ]; }
on_both() { # NAME OPTION...: a job that runs
    pids=$(mktemp -d "$work/pids-XXXXXX")
    begin h1 "${@:2}" "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang
    begin h2 "${@:2}" "$fake" stage 2 stage 3 sleep 300 pid "$pids" @all hang
    check "$1: four ranks run" within 60 all_run
}
parent_of() { sed 's/.*) . //; s/ .*//' "/proc/$1/stat"; }
rank_pid() { cat "$pids/rank.$1" 2>/dev/null || cat "$pids"/*"$1"; }

# ends NAME CODE1 CODE2 LINE1 LINE2: exit codes and lines of both, and nothing is left.
ends() {
    check "$1: h1" ends_on h1 "$2"
    check "$1: h2" ends_on h2 "$3"
    check "$1: the line of h1" says h1 "$4"
    check "$1: the line of h2" says h2 "$5"
    clean "$1"
}

faults() { # ROUND
    # Before they meet: what one host says, the other does where it could be reached.
    begin h1 "$fake"
    begin h2 -q "$work/missing"
    ends "round $1, a program that is missing" 127 127 "rank [23] \\(host h2\\): .*$work/missing" "$work/missing"
    begin h1 --timeout 30 "$fake"
    begin h2 --no-such-option "$fake"
    ends "round $1, a wrong option" 2 2 'rank [23] \(host h2\): .*no-such-option' 'no-such-option'
    # Without a secret none can be told.
    begin h1 --timeout 3 "$fake"
    begin h2 --secret-file "$work/missing" "$fake"
    ends "round $1, no secret" 1 2 'waited 3 s for 2 of 4: ranks 2, 3 to begin' "$work/missing"

    begin h1 "$fake"
    begin h2 "$fake" another
    reason='ranks 0 .* and 2 .* were started with different commands'
    ends "round $1, different commands" 2 2 "$reason" "the ddprun of rank 0 .* ends the job: $reason"

    # After they have met, a host cannot start its ranks.
    for host in h1 h2; do
        place=()
        [ $host = h2 ] || place=(TMPDIR="$work/missing" XDG_RUNTIME_DIR=)
        begin h1 "$fake"
        place=()
        [ $host = h1 ] || place=(TMPDIR="$work/missing" XDG_RUNTIME_DIR=)
        begin h2 "$fake"
        place=()
        reason="cannot use $work/missing for temporary files"
        ends "round $1, a start that fails on $host" 1 1 "$reason" "$reason"
    done

    on_both "round $1, a rank is killed"
    kill -KILL "$(rank_pid 3)"
    check "round $1, a rank is killed: h1" ends_on h1 137
    check "round $1, a rank is killed: h2" ends_on h2 137
    check "round $1, a rank is killed: its line" says h1 'rank 3 \(host h2, process [0-9]*\) was ended by SIGKILL'
    check "round $1, a rank is killed: the line of its host" says h2 'the ddprun of rank 0 \(host h1\) ends the job: rank 3 \(host h2'
    clean "round $1, a rank is killed"

    on_both "round $1, a ddprun is killed"
    kill -KILL "$(parent_of "$(rank_pid 2)")"
    check "round $1, a ddprun is killed: h1" ends_on h1 fails
    check "round $1, a ddprun is killed: h2" ends_on h2 137
    check "round $1, a ddprun is killed: its line" says h1 'the ddprun of rank 2 \(process [0-9]* on host h2\) is lost'
    check "round $1, a ddprun is killed: the line of its host" says h2 'the ddprun of local rank 0 \(process [0-9]*\) was ended by SIGKILL'
    clean "round $1, a ddprun is killed"

    on_both "round $1, the first ddprun of a host is killed"
    kill -KILL "$started_h2"
    check "round $1, the first ddprun of a host is killed: h1" ends_on h1 fails
    check "round $1, the first ddprun of a host is killed: h2" ends_on h2 137
    check "round $1, the first ddprun of a host is killed: its line" says h1 'rank [23] \(host h2.*the first ddprun of this host, which started those of its ranks, is gone'
    check "round $1, the first ddprun of a host is killed: the line there" says h2 'ends the job: rank [23] \(host h2\): the first ddprun of this host.* is gone'
    clean "round $1, the first ddprun of a host is killed"

    # Both hosts end, and no host begins again: the killed one would not be there.
    for host in h1 h2; do
        on_both "round $1, the first ddprun of $host is killed, with --max-restarts" --max-restarts 2
        started=started_$host
        kill -KILL "${!started}"
        [ $host = h1 ] && codes=(137 fails) || codes=(fails 137)
        check "round $1, the first ddprun of $host is killed, with --max-restarts: h1" ends_on h1 "${codes[0]}"
        check "round $1, the first ddprun of $host is killed, with --max-restarts: h2" ends_on h2 "${codes[1]}"
        check "round $1, the first ddprun of $host is killed, with --max-restarts: why it does not begin again" within 20 grep -q '^ddprun: no restart: the first ddprun of a host was killed' "$work/h1"
        clean "round $1, the first ddprun of $host is killed, with --max-restarts"
    done

    # Both ddprun of the host of rank 0, one after the other: no process is left there that could say why.
    on_both "round $1, all ddprun of a host are killed"
    members=("$(parent_of "$(rank_pid 0)")" "$(parent_of "$(rank_pid 1)")")
    kill -KILL "$started_h1"
    kill -KILL "${members[@]}" 2>/dev/null
    check "round $1, all ddprun of a host are killed: h1" ends_on h1 137
    check "round $1, all ddprun of a host are killed: h2" ends_on h2 fails
    check "round $1, all ddprun of a host are killed: a line on the other" within 20 grep -q '^ddprun: ' "$work/h2"
    clean "round $1, all ddprun of a host are killed"

    on_both "round $1, a host is cut off"
    hosts_link h2 down
    check "round $1, a host is cut off: h1" ends_on h1 1
    check "round $1, a host is cut off: h2" ends_on h2 1
    check "round $1, a host is cut off: the line here" says h1 'the ddprun of rank [23] \(process [0-9]* on host h2\) is lost: it has been silent'
    check "round $1, a host is cut off: a line there" grep -q '^ddprun: rank [23] (host h2) has lost the ddprun of rank 0' "$work/h2"
    hosts_link h2 up
    clean "round $1, a host is cut off"

    # Rank 1 waits amid a repair until the link is down.
    name="round $1, a host is cut off amid a repair" reached=$work/reached saved=$work/saved
    place=(REPAIR_NCCL_FAULT="meet before" REPAIR_NCCL_FILE="$reached")
    repairing=(--device softgpu --bucket-mb 0.05 --nccl "$build/tests/end_to_end/librepair_nccl.so" "$build/tests/trainers/repairs" plain "$saved")
    begin h1 "${repairing[@]}"
    begin h2 "${repairing[@]}"
    place=()
    check "$name: a step is repaired" within 60 test -e "$reached"
    hosts_link h2 down
    rm -f "$reached"
    check "$name: h1" ends_on h1 1
    check "$name: h2" ends_on h2 1
    check "$name: the line here" says h1 'the ddprun of rank [23] \(process [0-9]* on host h2\) is lost: it has been silent'
    check "$name: a line there" grep -q '^ddprun: rank [23] (host h2) has lost the ddprun of rank 0' "$work/h2"
    check "$name: the last step before is saved: $(cat "$saved")" grep -qx '9 -11.25 -11.25' "$saved"
    hosts_link h2 up
    clean "$name"

    # The supervisor of rank 0 is stopped while training ends on both hosts, and continues when the others have given it up: it reads long
    # after the end of their ranks that they have.
    if [ "$soak" -ne 0 ]; then
        pids=$(mktemp -d "$work/pids-XXXXXX")
        begin h1 "$fake" stage 2 stage 3 sleep 300 pid "$pids" await "$pids/go" stage 4
        begin h2 "$fake" stage 2 stage 3 sleep 300 pid "$pids" await "$pids/go" stage 4
        check "round $1, the supervisor of rank 0 is stopped: four ranks run" within 60 all_run
        stopped=$(parent_of "$(rank_pid 0)")
        kill -STOP "$stopped"
        touch "$pids/go"
        check "round $1, the supervisor of rank 0 is stopped: h2 gives it up" within 60 grep -q 'has lost the ddprun of rank 0' "$work/h2"
        kill -CONT "$stopped"
        check "round $1, the supervisor of rank 0 is stopped: h1" ends_on h1 1
        check "round $1, the supervisor of rank 0 is stopped: a rank is named once" \
            [ "$(grep -cE 'rank ([23]) \(host h2\): rank \1' "$work/h1")" -eq 0 ]
        check "round $1, the supervisor of rank 0 is stopped: h2" ends_on h2 1
        clean "round $1, the supervisor of rank 0 is stopped"
    fi

    # While they meet: h2 has not come, or the listener goes.
    begin h1 "$fake"
    check "round $1, asked to end while it waits: it listens" within 60 listens
    kill -TERM "$started_h1"
    check "round $1, asked to end while it waits" ends_on h1 143
    check "round $1, asked to end while it waits: one line" says h1 'SIGTERM while (waiting for the other ranks to begin|the secret .* was read)'
    clean "round $1, asked to end while it waits"
    begin h1 "$fake"
    check "round $1, the listener is killed: it listens" within 60 listens
    kill -KILL "$(listener)"
    check "round $1, the listener is killed: h1" ends_on h1 fails
    check "round $1, the listener is killed: its line" grep -qE '^ddprun: the ddprun of local rank [01] \(process [0-9]*\) was ended by SIGKILL' "$work/h1"
    clean "round $1, the listener is killed"
    hosts_link h2 down
    begin h1 --timeout 3 "$fake"
    begin h2 --timeout 3 "$fake"
    ends "round $1, no way between the hosts" 1 1 'waited 3 s for 2 of 4: ranks 2, 3 to begin' 'waited 3 s for a ddprun that listens at h1'
    hosts_link h2 up
}
listener() { hosts_on h1 ss -Hltnp "sport = :$port" | sed -n 's/.*pid=\([0-9]*\).*/\1/p'; }
listens() { [ -n "$(listener)" ]; }
command -v ss >/dev/null || skip "no ss (iproute2)"
for ((round = 1; round <= (soak > 0 ? 30 : 1); ++round)); do
    faults "$round"
done

# 1 % loss, 50 ms; starts apart.
carried_link
delayed 50 50 1
for ((round = 1; round <= (soak > 0 ? 20 : 1); ++round)); do
    rm -f "$work"/rank-*
    begin h1 -q --check-every 1 --bucket-mb 0.02 "$digits" --data "$data" --batch 96 --steps 12 --seed 5 --save "$work/rank-%d"
    sleep "$((soak > 0 ? RANDOM % 11 : 1))"
    begin h2 -q --check-every 1 --bucket-mb 0.02 "$digits" --data "$data" --batch 96 --steps 12 --seed 5 --save "$work/rank-%d"
    check "round $round, a bad link: h1 ends well" ends_on h1 0
    check "round $round, a bad link: h2 ends well" ends_on h2 0
    same_on_all_ranks "round $round, a bad link" 4
    clean "round $round, a bad link"
done
finish
