#!/usr/bin/env bash
# annotated.sh PROGRAM SHIM ENGINE - the macros do nothing outside a job, and reach the engine inside one.
set -euo pipefail
program=$1 shim=$2 engine=$3
protocol=$(sed -nE 's/^#define DDPRUN_PROTOCOL_VERSION ([0-9]+).*/\1/p' "$(dirname "$0")/../../base/protocol.h")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
head -c 65536 /dev/zero >"$folder/status"

alone=$'rank 0 of 1, local 0\nshare 0 + 100\nloss 1.5, score 0.10000000000000001\nany 0 1, flags 0 1 0\nmine 1, updates 1'
inside=$'rank 3 of 5, local 1
parameter weights 8 1 line 1 ptr
state &counter 1 5 line 1 ptr
gradient gradients 8 4 line 1 ptr
share 25 + 50
weight 50 of 100 count
step 0 0x1 0
group 1 1
step 1 0x1 0
step parameters 0 0x1 0
step parameters 2 0x1 0
buffer statistics 2 2 line 1 ptr
no sync 1 DDP_NO_SYNC_BEGIN
no sync 0 DDP_NO_SYNC_END
ready ptr 0x1 gradients
mean 1.5 of type 1
mean 7 of type 1 as loss
mean 0.10000000000000001 of type 2
mean 7 of type 2 as score
loss 8, score 8
any 0 &unset
any 5 &set
any 0 &asked
any 1 1, flags 1 1 1
reduce weights 8 9 4 0x1 ptr
forget gradients ptr
turn DDP_TURN_BEGIN
mine 0, updates 1
turn 0 ends DDP_TURN_END
turn DDP_TURN_BEGIN
turn DDP_TURN_BEGIN
turn 3 ends DDP_TURN_BEGIN
turn DDP_TURN_OPEN
turn 0 ends DDP_TURN_END
turn 2 ends DDP_TURN_BEGIN
turn 1 ends DDP_TURN_BEGIN'

compare() { # NAME EXPECTED GOT
    if [ "$2" != "$3" ]; then
        printf '%s: expected\n%s\ngot\n%s\n' "$1" "$2" "$3"
        exit 1
    fi
}
compare "without the shim" "$alone" "$("$program")"
compare "with the shim, outside a job" "$alone" "$(LD_PRELOAD=$shim "$program")"
compare "in a job" "$inside" "$(LD_PRELOAD=$shim _DDPRUN_PROTOCOL=$protocol _DDPRUN_JOB_DIR=$folder _DDPRUN_ENGINE=$engine \
    RANK=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 _DDPRUN_STATUS_INDEX=0 _DDPRUN_STATUS_COUNT=1 "$program")"

# A shim that is older than the header, and a launcher of another version, report it and end the program.
if LD_PRELOAD=$shim _DDPRUN_PROTOCOL=999 _DDPRUN_JOB_DIR=$folder _DDPRUN_ENGINE=$engine \
    RANK=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 _DDPRUN_STATUS_INDEX=0 _DDPRUN_STATUS_COUNT=1 "$program" >/dev/null 2>"$folder/stderr"; then
    echo "another protocol version was accepted"
    exit 1
fi
