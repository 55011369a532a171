#!/usr/bin/env bash
# host_waits.sh BUILD - but for the verdict in DDP_STEP no step makes the host wait for the device, and none starts a thread (as NCCL does for each call of a communicator that does not block):
# the calls that do, counted by a debugger on each rank, are as many in 40 steps as in 20. (The trainer itself makes none in a step.)
source "$(dirname "$0")/lib.sh"
command -v gdb >/dev/null || skip "no gdb, which counts the calls"
limit=200
calls=(cuStreamSynchronize cuCtxSynchronize cuEventSynchronize pthread_create)
options=()
{
    echo "set pagination off
set breakpoint pending on
set debuginfod enabled off
handle SIG61 nostop noprint pass" # by which the stand-in watches kernels that spin
    for i in "${!calls[@]}"; do
        printf 'break %s if !$_any_caller_is("device_await", 2)\nignore %d 1000000\n' "${calls[i]}" $((i + 1))
    done
    echo "run
info breakpoints"
} >"$work/gdb"

# waits PROGRAM...: what each rank's debugger counted, one line a call and rank, sorted.
waits() {
    run "$ddprun" -n 2 --device softgpu --bucket-mb 0.001 "${options[@]}" gdb -q -batch -x "$work/gdb" --args "$@"
    grep -h 'already hit' "$work/stdout" | sort
}

# as_often NAME PROGRAM...: with 40 steps for its last argument the host waits as often as with 20.
as_often() {
    local few many
    few=$(waits "${@:2}" 20)
    check "$1, 20 steps: both ranks are counted" [ "$(grep -c 'already hit' <<<"$few")" -ge 4 ]
    many=$(waits "${@:2}" 40)
    check "$1, 40 steps: the host waits, and starts threads, no more often" [ "$few" = "$many" ]
    [ "$few" = "$many" ] || diff <(echo "$few") <(echo "$many")
}

as_often "steps" "$ladder" --layers 6 --width 16 --batch 8 --steps
as_often "steps in graphs" "$build/tests/trainers/graphs" alternate
options=(--check-every 1)
as_often "checks in every step" "$ladder" --layers 6 --width 16 --batch 8 --steps
finish
