#!/usr/bin/env bash
# python.sh BUILD - a trainer in Python, with CUDA by ctypes, trains as a program in C does: alone bitwise what samples/digits trains,
# under ddprun with one rank bitwise the same, with several bitwise the same on all ranks and equal to serial up to summation order;
# ddprun check calls it equal. A rank that ends by an exception ends the job, and what it has printed is seen.
source "$(dirname "$0")/../end_to_end/lib.sh"
command -v python3 >/dev/null || skip "no python3"
root=$(cd "$(dirname "$0")/../.." && pwd)
unset PYTHONUNBUFFERED # or a print would never wait
export PYTHONPATH=$root/interpose/python PYTHONDONTWRITEBYTECODE=1
trainer=(python3 "$root/samples/python/train.py" --kernels "$build/samples/libdigits_kernels.so" --data "$data" --seed 5)
steps=$((sanitized ? 12 : 60))
options=(--steps "$steps" --batch 96)
ranks_of() {
    run "$ddprun" -n "$1" --device softgpu --check-every 1 "${@:2}"
}

works "alone" env "LD_LIBRARY_PATH=$build/lib/softgpu" "${trainer[@]}" "${options[@]}" --save "$work/serial"
cp "$work/stdout" "$work/serial.out"
run "$digits_plain" --data "$data" --seed 5 "${options[@]}" --save "$work/in-c"
check "alone: bitwise what samples/digits trains" cmp "$work/serial" "$work/in-c"
for ranks in 1 2 4; do
    rm -f "$work"/rank-*
    ranks_of "$ranks" "${trainer[@]}" "${options[@]}" --save "$work/rank-%d"
    succeeded "$ranks ranks"
    if [ "$ranks" -eq 1 ]; then
        check "1 rank: bitwise the bare program" cmp "$work/rank-0" "$work/serial"
        check "1 rank: prints what the bare program prints" cmp "$work/stdout" "$work/serial.out"
        continue
    fi
    same_on_all_ranks "$ranks ranks" "$ranks"
    check "$ranks ranks: serial up to summation order" "$compare" --quiet "$work/rank-0" "$work/serial" "$close"
    overlapped "$ranks ranks"
    check "$ranks ranks: compared after every step" grep -q "compared $steps times" "$work/stderr"
done

works "ddprun check" "$ddprun" --device softgpu check "${trainer[@]}" "${options[@]}" --save "$work/of-a-check"
check "ddprun check finds it equal" grep -q '^equal: 2 ranks compute what one process computes' "$work/stdout"
check "and keeps its files to itself" [ ! -e "$work/of-a-check" ]

run env "LD_LIBRARY_PATH=$build/lib/softgpu" "${trainer[@]}" --kernels "$work/none.so"
check "no library of kernels: one line" bash -c "[ $code -eq 1 ] && grep -c . '$work/stderr' | grep -qx 1 && grep -q 'none.so' '$work/stderr'"

cat >"$work/fails.py" <<'END'
import os
import signal
import ddprun
if ddprun.rank == 1:
    print("rank 1 was here")
    if os.environ["END"] == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    ddprun.gradient(memoryview(bytearray(8))[::2])
signal.pause()
END
END=exception ranks_of 2 python3 "$work/fails.py"
failed_with "an object that is not contiguous ends the job" 1 'rank 1'
check "and its exception says why" grep -q 'ValueError: ddprun: an object of type memoryview is not contiguous' "$work/stderr"
END=signal ranks_of 2 python3 "$work/fails.py"
failed_with "a rank that is killed ends the job" 137 'rank 1'
check "and what it had printed is seen" grep -qx '\[1\] rank 1 was here' "$work/stdout"

run "$ddprun" -n 2 --device gpu "${trainer[@]}"
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    failed_with "without a GPU and --device softgpu the interpreter is refused" 2 'add --device softgpu'
fi
finish
