#!/usr/bin/env bash
# relay.sh BUILD [hosts] - a process that does not know the job's secret, between its processes (relay.py): where ranks meet, between supervisors, and between
# ranks. Who only passes frames on does no harm: the job trains with its bits. Who changes, repeats, leaves out or adds a frame ends the job, with an exit code
# other than 0 and a line that says why; and nothing is left. DDPRUN_SOAK=1: 20 rounds of each. With `hosts` each rank has a host of its own (hosts.sh), and the
# relay is on that of rank 0. A frame of a rank that is left out may be the last that it sends: then the other waits for it.
here=$(cd "$(dirname "$0")" && pwd)
if [ "${2:-}" = hosts ]; then
    source "$here/cluster.sh"
    launcher=(bash "$here/by_variables.sh" -n 2 bash -c 'exec "$0" "h$((RANK + 1))" "$@"' "$hosts_runner")
    export BY_ADDRESS=h1 NCCL_SOCKET_IFNAME=eth0
    host=10.77.0.1 interface=eth0 on_host=(hosts_exec h1) port=29500 beside=29600
    note_quiet
else
    source "$here/launched.sh"
    launcher=(bash "$here/by_variables.sh" -n 2)
    host=127.0.0.1 interface=lo on_host=(exec) port=$(free_port) beside=$(free_port)
    clean() { nothing_left "$1"; }
fi
gcc -shared -fPIC -O1 -D_GNU_SOURCE -o "$work/redirect.so" "$here/redirect.c" || skip "no compiler for what leads connections to the relay"
export HOME=$work/home
mkdir -m 700 "$HOME"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT "${!PET_@}"
options=(--data "$data" --batch 96 --steps 60 --seed 5)
works "ddprun -n 2" "$ddprun" -n 2 -q --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/alone-%d"
relay=

stop_relay() {
    [ -z "$relay" ] || kill "$relay" 2>/dev/null
    wait "$relay" 2>/dev/null
    relay=
}
at_exit stop_relay

# between WHICH DEED: two ranks, with a relay between them.
between() {
    local which=$1 deed=$2 at=$port to=$((port + 1))
    rm -f "$work/meant" "$work/relay" "$work"/rank-*
    if [ "$which" != meeting ]; then
        at=$beside to=$work/meant
    fi
    ("${on_host[@]}" env -u DDPRUN_TEST_MARK python3 "$here/relay.py" "$host" "$at" "$to" "$which" "$deed" </dev/null >"$work/relay" 2>&1) &
    relay=$!
    check "$which, $deed: a relay listens" within 10 grep -q ready "$work/relay"
    # The meeting's listener takes the next port, as the first is in use.
    BY_PORT=$port run "${launcher[@]}" env REDIRECT_FROM="$port" REDIRECT_HOST="$host" REDIRECT_TO="$at" REDIRECT_FILE="$work/meant" \
        bash -c '[ "$RANK" = 0 ] || export LD_PRELOAD=$1; [ "$0" != meeting ] || export REDIRECT_MEETING=1; exec "${@:2}"' "$which" "$work/redirect.so" \
        "$ddprun" --interface "$interface" -q --timeout 30 --heartbeat-timeout 5 --check-every 1 --bucket-mb 0.02 "$digits" "${options[@]}" --save "$work/rank-%d"
    check "$which, $deed: the relay did it" grep -qx "done $deed" "$work/relay"
    if [ "$deed" = pass ]; then
        succeeded "$which, $deed: the job ends well"
        check "$which, $deed: with its bits" cmp "$work/rank-1" "$work/alone-0"
    else
        check "$which, $deed: an exit code other than 0" [ "$code" -ne 0 ]
        check "$which, $deed: a line says why" grep -qE '^ddprun: .*(is damaged|waited 30 s for rank 1)' "$work/stderr"
        # A frame between supervisors may be missed once all is trained.
        check "$which, $deed: nothing was trained, or what is right" bash -c "[ ! -e '$work/rank-0' ] || { [ $which != engine ] && cmp '$work/rank-0' '$work/alone-0'; }"
    fi
    stop_relay
    clean "$which, $deed"
}

for ((round = 1; round <= (${DDPRUN_SOAK:-0} > 0 ? 20 : 1); ++round)); do
    for which in meeting supervisor engine; do
        for deed in pass alter repeat drop add; do
            [ "$which$deed" = engineadd ] || ! in_turn 3 || between "$which" "$deed"
        done
    done
done
finish
