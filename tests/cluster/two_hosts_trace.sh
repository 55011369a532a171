#!/usr/bin/env bash
# two_hosts_trace.sh BUILD - the trace of ranks on two hosts stands on one clock, as exactly as `ddprun trace` states: with a slow link,
# with one that is slow in one direction only, and where the clocks of the hosts differ by 100 seconds. Both hosts have this machine's
# clock, which they see through time namespaces: so the true difference is known.
source "$(dirname "$0")/cluster.sh"
for command in mpirun python3; do
    command -v "$command" >/dev/null || skip "no command $command (Debian: openmpi-bin, python3)"
done
reason=$(unshare --time --monotonic 100 --fork true 2>&1) || skip "no time namespaces: $reason"
export OMPI_MCA_plm_rsh_agent=$hosts_agent

# A ddprun whose clock on h2 is ahead by $AHEAD_S seconds.
cat >"$work/ahead" <<'END'
#!/bin/bash
[ "$(hostname)" = h2 ] || exec "$@"
exec unshare --time --monotonic "$AHEAD_S" --fork --kill-child "$@"
END
chmod +x "$work/ahead"

# How far the timeline is off the true clock, in ms, at all DDP_STEP of h2's rank: that of h1's has the clock of the timeline.
cat >"$work/off.py" <<'END'
import json, sys
folder, timeline, ahead_s = sys.argv[1], sys.argv[2], int(sys.argv[3])
entered = {}
for rank in 0, 1:
    for line in map(json.loads, open("%s/rank-%d.jsonl" % (folder, rank))):
        if "step" in line:
            entered[rank, line["step"]] = line["entered_ns"] - rank * ahead_s * 10**9
shown = {(e["pid"], e["args"]["step"]): e["ts"] * 1e3 for e in json.load(open(timeline))["traceEvents"] if e["name"] == "DDP_STEP"}
origin = {key: entered[key] - shown[key] for key in shown}
first = min(step for rank, step in origin if rank == 0)
print(max(abs(origin[key] - origin[0, first]) / 1e6 for key in origin if key[0] == 1))
END

carried_link

# traced NAME AHEAD_S MS_OF_H1 MS_OF_H2: the difference of the clocks is not known better than half a round trip, and is within what is stated.
traced() {
    local name=$1 stated off
    delayed "$3" "$4"
    rm -rf "$work/trace"
    AHEAD_S=$2 run "$hosts_runner" h1 mpirun --allow-run-as-root --host h1:1,h2:1 -n 2 --bind-to none -x AHEAD_S -x NCCL_SOCKET_IFNAME=eth0 \
        "$work/ahead" "$ddprun" --trace "$work/trace" "$ladder" --layers 4 --width 32 --batch 32 --steps 40
    succeeded "$name: ends well"
    works "$name: a timeline is made" "$ddprun" trace "$work/trace" -o "$work/timeline.json"
    stated=$(sed -n 's/.*clocks are aligned within \([0-9.]*\) ms.*/\1/p' "$work/stderr")
    off=$(python3 "$work/off.py" "$work/trace" "$work/timeline.json" "$2")
    check "$name: the stated error, ${stated:-?} ms, is half a round trip or more, and below a second" \
        awk -v stated="${stated:-0}" -v least=$((($3 + $4) / 2)) 'BEGIN { exit !(stated > 0 && stated >= least && stated < 1000) }'
    check "$name: the true one, ${off:-?} ms, is within it" \
        awk -v stated="${stated:-0}" -v off="${off:-1e9}" 'BEGIN { exit !(off <= stated + 0.001) }'
    clean "$name"
}

traced "a fast link" 0 0 0
traced "clocks apart" 100 0 0
traced "a slow link" 0 6 6
traced "a slow link, clocks apart" -50 6 6
traced "slow from h2 to h1" 100 0 12
traced "slow from h1 to h2" 100 12 0
finish
