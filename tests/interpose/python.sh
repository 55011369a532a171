#!/usr/bin/env bash
# python.sh SHIM ENGINE - the module ddprun for Python does nothing outside a job, and reaches the engine inside one: with the memory, the type and the place
# that the program names, and with objects kept as long as they are annotated. A request that cannot be served raises an exception that names the reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../lib/lib.sh"
shim=$1 engine=$2
command -v python3 >/dev/null || skip "no python3"
export PYTHONPATH=$here/../../interpose/python PYTHONDONTWRITEBYTECODE=1
protocol=$(sed -nE 's/^#define DDPRUN_PROTOCOL_VERSION ([0-9]+).*/\1/p' "$here/../../base/protocol.h")
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-python.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out
head -c 65536 /dev/zero >"$work/status"

in_job() {
    LD_PRELOAD=$shim _DDPRUN_PROTOCOL=$protocol _DDPRUN_JOB_DIR=$work _DDPRUN_ENGINE=$engine RANK=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
        _DDPRUN_STATUS_INDEX=0 _DDPRUN_STATUS_COUNT=1 python3 "$here/python_calls.py" "$@" >"$work/out" 2>&1
}

cat >"$work/inside" <<'END'
rank 3 of 5, local 1
parameter weights 8 1 line 1 ptr
parameter (ADDRESS, 3, "float16") 3 3 line 1 ptr
state (ADDRESS, 1, 5) 1 5 line 1 ptr
gradient gradients 8 4 line 1 ptr
share 25 + 50
weight 50 of 100 count
step 0 0x1 step
group 1 1
step 1 0x77 stream=Stream(0x77)
buffer buffer 6 2 line 1 ptr
no sync 1 no_sync
between
no sync 0 no_sync
ready ptr 0x1 gradients
mean 1.5 of type 2
loss 7
mean 7.0999999999999996 of type 2 as loss
loss 8.1
any 0 0
any True
any 1 [1]
any True
turn turn
mine False, updates True
turn 1 ends turn
turn turn_open
turn 0 ends turn_end
forget gradients ptr
gradient packed 6 1 line 1 ptr
asked for stream -1, capsules 1 - 0
forget packed ptr
capsules left 0
state numbers 2 2 line 1 ptr
the array cannot move
forget numbers ptr
state memoryview(bytearray(4)) 4 7 line 1 ptr
step 0 0x1 step
step 0 0x1 step
0 sites more in the second round
END

cat >"$work/versions" <<'END'
step_parameters 0 0x1 step_parameters
step_parameters 3 0x55 0x55
reduce 1 8 8 4 0x1 CudaArray("<u4")
reduce 1 8 9 3 0x66 CudaArray("<u8", stream=0x66)
reduce 1 8 1 2 0x77 CudaArray(stream=0x66)
reduce 1 8 1 1 0x78 Packed()
asked for stream 0x78
reduce 0 0 7 1 0x1 bytearray()
state 4 8
ok - an older shim
END

none='0 1 0 1.5 (0, 100) 0 False True True True'
check "without the shim every call does nothing" bash -c "[ \"\$(python3 '$here/python_calls.py' without)\" = '$none' ]"
check "with the shim outside a job, too" bash -c "[ \"\$(LD_PRELOAD='$shim' python3 '$here/python_calls.py' without)\" = '$none' ]"
check "in a job the calls end well" in_job calls
check "and the engine gets what the program names" diff "$work/inside" "$work/out"
check "what cannot be served is looked at" in_job refusals
check "and each is an exception that names it" bash -c "[ \$(grep -c '^ok' '$work/out') -eq 34 ] && ! grep -v '^ok' '$work/out'"
check "what came with interface 4 is called" bash -c "python3 '$here/python_calls.py' versions >'$work/out'"
check "as the program names it, and an older shim is an exception" diff "$work/versions" "$work/out"
check "the module declares what the header declares" python3 "$here/python_header.py" "$here/../../interpose/include/ddprun.h"
check "the module is written for Python 3.8" python3 -c "import ast; ast.parse(open('$PYTHONPATH/ddprun.py').read(), feature_version=(3, 8))"
finish
