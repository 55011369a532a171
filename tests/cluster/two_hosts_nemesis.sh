#!/usr/bin/env bash
# two_hosts_nemesis.sh BUILD [JOBS [SEED]] - jobs on two hosts while the link is cut one way or both, delays and reorders, the clock of the day steps and
# processes of ddprun are paused. The loss of each step is held against a job without faults, and all ranks compare hashes in each step: a job ends with the
# same bits, or with a true line on each host and losses that are right as far as they go; and nothing is left. Only with DDPRUN_SOAK=1: 200 jobs.
source "$(dirname "$0")/cluster.sh"
[ "${DDPRUN_SOAK:-0}" = 1 ] || skip "DDPRUN_SOAK=1 runs it"
jobs=${2:-200} RANDOM=${3:-1}
export HOME=$work/home NCCL_SOCKET_IFNAME=eth0 CLOCK_STEP=$work/clock
mkdir -m 700 "$HOME"
echo 0 >"$CLOCK_STEP"
gcc -shared -fPIC -O1 -o "$work/step_clock.so" "$(dirname "$0")/step_clock.c" || skip "no compiler for the clock"
carried_link
link_is=$work/link
silent='it has been silent for the time of --heartbeat-timeout' never_met='waited 12 s for .* to begin'
link_does() { # 12=PERCENT 21=PERCENT of frames lost, ms=DELAY, late=PERCENT of frames 20 ms later
    printf '%s' "${*:-}" >"$link_is.new" && mv "$link_is.new" "$link_is"
}
link_does
delayed 1 1 0 "$link_is"

begin_host() { # HOST
    (hosts_exec "$1" env "LD_PRELOAD=$work/step_clock.so" "$ddprun" --nnodes 2 --node-rank $((${1#h} - 1)) --master h1:29500 -n 2 --interface eth0 \
        --heartbeat-timeout 4 --timeout 12 --check-every 1 --bucket-mb 0.02 --output "files=$work/$1.losses" "$digits" --data "$data" --batch 96 \
        --steps 400 --log-every 1 --seed 5 --save "$work/rank-%d" </dev/null >"$work/$1" 2>&1) &
    declare -g "host_$1=$!"
}
helpers() { # ddprun's processes that are no ranks
    local host process
    for host in h1 h2; do
        for process in $(hosts_processes "$host"); do
            [ "$(readlink "/proc/$process/exe")" != "$ddprun" ] || echo "$process"
        done
    done
}
losses() { (cd "$work" && grep -h '^step ' h?.losses/*); }
declare -A count
host_h1="" host_h2="" # the ddprun of each
for ((job = 0; job <= jobs; ++job)); do # the first has no fault
    faults=(none cut12 cut21 cut blink delay reorder clock pause)
    fault=${faults[job == 0 ? 0 : RANDOM % 9]} sleep_ms=$((RANDOM % 2500)) paused=
    rm -rf "$work"/rank-* "$work"/h?.losses
    begin_host h1
    begin_host h2
    sleep "$((sleep_ms / 1000)).$(printf %03d $((sleep_ms % 1000)))"
    case $fault in
    cut12) link_does 12=100 ;;
    cut21) link_does 21=100 ;;
    cut) link_does 12=100 21=100 ;;
    blink) link_does 12=100 && sleep 1 && link_does ;;
    delay) link_does ms=$((10 + RANDOM % 90)) && sleep 4 && link_does ;;
    reorder) link_does late=$((5 + RANDOM % 30)) && sleep 4 && link_does ;;
    clock) echo $((RANDOM % 2 ? 86400 : -86400)) >"$CLOCK_STEP" ;;
    pause)
        paused=$(helpers | shuf -n 2 --random-source=<(yes "$RANDOM"))
        [ -z "$paused" ] || { kill -STOP $paused && sleep 2 && kill -CONT $paused; } 2>/dev/null
        ;;
    esac
    wait "$host_h1"
    one=$?
    wait "$host_h2"
    two=$? why=
    link_does
    echo 0 >"$CLOCK_STEP"
    losses >"$work/history" 2>/dev/null
    if [ "$job" -eq 0 ]; then
        [ "$one $two" = '0 0' ] || { not_ok "a job without faults" "$(cat "$work/h1" "$work/h2")" && break; }
        check "a job without faults: $(wc -l <"$work/history") losses" [ -s "$work/history" ]
        cp "$work/history" "$work/right" && cp "$work/rank-0" "$work/right-bits"
    elif [ "$one $two" = '0 0' ]; then
        for rank in 0 1 2 3; do cmp -s "$work/rank-$rank" "$work/right-bits" || why="rank $rank has other bits"; done
        cmp -s "$work/history" "$work/right" || why="other losses"
    else
        [ "$one" -ne 0 ] && [ "$two" -ne 0 ] || why="exit codes $one and $two"
        case $fault in none | delay | reorder | clock) why="it ends with $one and $two" ;; esac
        grep -qE "^ddprun: .*(host h2.*$silent|rank [23] has left|$never_met)" "$work/h1" || why="no true line on h1"
        grep -qE "^ddprun: .*(host h1.*$silent|$never_met)" "$work/h2" || why="no true line on h2"
        ! grep -qE 'differ|NaN|SIG(SEGV|ABRT)|internal error' "$work/h1" "$work/h2" || why="a false line"
    fi
    ! grep -qvxFf "$work/right" "$work/history" || why="a step with another loss"
    within 30 nothing_left >/dev/null || why="$why; left: $(leftovers | tr '\n' ';')"
    [ "$one" -eq 0 ] && ended=ended || ended=failed
    count["$fault $ended"]=$((${count["$fault $ended"]:-0} + 1))
    if [ -z "$why" ]; then ok "job $job: $fault after $sleep_ms ms, $ended"; else not_ok "job $job: $fault after $sleep_ms ms" "$why: $(cat "$work/h1" "$work/h2")"; fi
done
for what in "${!count[@]}"; do echo "# $what: ${count[$what]}"; done | sort
finish
