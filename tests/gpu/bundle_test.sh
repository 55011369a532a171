#!/usr/bin/env bash
# bundle_test.sh BUILD - the bundle for GPU machines, on the stand-in: first.sh writes a report that JSON readers read, each check has
# its rows, what differs is seen, and what is missing is named in one line. rehearse.sh does it in bare roots.
source "$(dirname "$0")/../end_to_end/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
export TMPDIR=$work
export SOFTGPU_ADDRESSES=real # as ctest sets it: rows compare where memory lies
unset CUDA_HOME NCCL_HOME

# one_line NAME CODE PATTERN: the last command ended with CODE and one line to stderr
one_line() {
    check "$1: exit code $2" [ "$code" -eq "$2" ]
    check "$1: one line" [ "$(wc -l <"$work/stderr")" -eq 1 ]
    check "$1: by name" grep -Eq "$3" "$work/stderr"
}

# ---- making it ----
run env XZ_OPT=-0 bash "$here/bundle.sh" --build "$build" --rehearse "$work/bundle"
check "a bundle is made, and says the size of its archive" grep -Eq '/bundle\.tar\.xz: [0-9]+ KiB; unpack it' "$work/stdout"
# Trainers that the scripts of run.sh name; types_ stands for two.
scripts=$(sed -nE 's/^all_scripts=\((.*)\)$/\1/p' "$here/run.sh")
for script in ${scripts/tables/}; do
    for trainer in $(grep -oE 'build/tests/trainers/[a-z_]+' "$here/../end_to_end/$script.sh" | sort -u); do
        check "run.sh $script finds ${trainer##*/} in the bundle" compgen -G "$work/bundle/build/gpu/${trainer##*/}*"
    done
done
tar -tf "$work/bundle.tar.xz" >"$work/packed" 2>&1
check "the archive holds what first.sh needs" [ "$(grep -cE '^bundle/(first\.sh|README\.md|tests/gpu/(first|commands|blocks|checks|several|report|libraries|run)\.sh|build/bin/ddprun|build/gpu/(deviates_own|libwrap_nccl\.so))$' "$work/packed")" -eq 13 ]
run bash "$here/bundle.sh" --build "$build" --rehearse "$work/bundle"
one_line "a folder that exists" 2 'bundle exists; name a folder that does not'
run bash "$here/bundle.sh" --build "$work" --rehearse "$work/other"
one_line "no build" 2 'no build in '
# Its size and its programs, where there is an nvcc: takes minutes.
if [ "${DDPRUN_SOAK:-0}" = 1 ] && bash -c "source '$here/libraries.sh'; gpu_nvcc_find" 2>/dev/null; then
    limit=1800
    works "a bundle for GPUs is made" bash "$here/bundle.sh" --build "$build" "$work/gpus"
    works "its programs have code for sm_80 and sm_90" bash "$here/architectures.sh" "$work/gpus"
    rm -rf "$work/gpus" "$work/gpus.tar.xz"
fi
# full FOLDER KIB COMMAND...: in a disk of its own, in FOLDER, of so many KiB
full() {
    mkdir -p "$1"
    run unshare -m bash -c 'mount -t tmpfs -o size="$1k" none "$0" && shift && exec "$@"' "$@"
}
if unshare -m true 2>/dev/null; then
    full "$work/full" 1024 bash "$here/bundle.sh" --build "$build" --rehearse "$work/full/bundle"
    one_line "a bundle on a full disk" 1 'has [01] MiB free, and the bundle needs 300'
else
    echo "not run: a full disk (no namespace of mounts)"
fi
run env GPU_TOOLKITS="$work/nothing" bash "$here/bundle.sh" --build "$build" "$work/other"
one_line "no nvcc" 2 'no nvcc .*CUDA toolkit'
check "no nvcc: nothing is made" [ ! -e "$work/other" ]

# ---- what is missing where it runs ----
standin=$work/bundle/build/lib/softgpu
for library in libcublas.so.13 libnccl.so.2; do
    mkdir "$work/some"
    ln -s "$standin"/* "$work/some/"
    rm "$work/some/$library"
    run env GPU_LIBRARIES="$work/some" "$work/bundle/first.sh" --rehearse --report "$work/none"
    one_line "no $library" 2 "^first.sh: no $library "
    rm -r "$work/some"
done
# A device file, or an nvidia-smi that knows a GPU, and no library: one line for each.
mkdir "$work/fake"
cat >"$work/fake/nvidia-smi" <<'SHELL'
#!/bin/sh
echo "$*" | grep -q memory.used && echo run >>"$0.calls" && exec printf '0, GPU-0, 100\n0, GPU-0, %d\n' $((300 * $(wc -l <"$0.calls")))
echo 'GPU 0: a fake (UUID: GPU-0)'
SHELL
chmod +x "$work/fake/nvidia-smi"
run env PATH="$work/fake:$PATH" GPU_LIBRARIES="$work/nothing" "$work/bundle/first.sh" --report "$work/none"
check "a GPU and no library: exit code 2" [ "$code" -eq 2 ]
check "a GPU and no library: each is named" [ "$(grep -c '^first.sh: no lib.*GPU_LIBRARIES' "$work/stderr")" -eq 5 ]
if [ "$(bash -c "source '$here/libraries.sh'; gpu_count")" -eq 0 ]; then
    run "$work/bundle/first.sh"
    one_line "no GPU" 2 'no NVIDIA GPU'
    run bash "$here/run.sh" "$work/bundle/build" inert
    check "run.sh without a GPU: skipped" [ "$code" -eq 77 ]
fi
run "$work/bundle/first.sh" --rehearse everything
one_line "no such block" 2 'everything: no such block or check'
run "$work/bundle/first.sh" --rehearse --minutes 0
one_line "no minute" 2 "minutes wants a whole number from 1 to 99999, not '0'"
run "$work/bundle/first.sh" --rehearse --nccl "$work/nothing/libnccl.so.2"
one_line "no such NCCL" 2 'nothing/libnccl.so.2: no such file'

mv "$work/bundle/build/bin/ddprun" "$work/ddprun"
printf '#!/bin/sh\necho "libc.so.6: version GLIBC_2.36 not found" >&2\necho "and so on" >&2\nexit 1\n' >"$work/bundle/build/bin/ddprun"
chmod +x "$work/bundle/build/bin/ddprun"
run env GPU_LIBRARIES="$standin" "$work/bundle/first.sh" --rehearse --report "$work/none"
one_line "a libc that is too old" 2 'does not start here: .*GLIBC_2.36 not found \(the bundle needs glibc 2.36; this is glibc'
mv "$work/ddprun" "$work/bundle/build/bin/ddprun"

# ---- running it ----
limit=400
export GPU_LIBRARIES=$standin
cat >"$work/check_report" <<'PYTHON'
import json, os, sys
told = json.load(open(sys.argv[1]))
rows = told["checks"]
for verdict, count in told["counts"].items():
    assert count == sum(row["verdict"] == verdict for row in rows), verdict
assert sum(told["counts"].values()) == len(rows), "no other verdicts"
for row in rows:
    assert row["expected"] and row["seen"], row
    folder = os.path.join(os.path.dirname(sys.argv[1]), row["log"])
    if row["verdict"] != "not run":
        missing = [name for name in ("command", "exit_code", "stdout", "stderr") if not os.path.isfile(f"{folder}/{name}")]
        assert not missing or "end-to-end" in row["name"], f"{row['name']}: no {missing} in {row['log']}"
    if row["verdict"] == "differs":
        assert os.path.getsize(f"{folder}/stdout") or os.path.getsize(f"{folder}/stderr") or "no output" in row["seen"], row
for wanted in sys.argv[2:]:
    assert any(wanted in row["name"] for row in rows), f"no row of {wanted}"
PYTHON
# What an earlier report did not make stays.
mkdir -p "$work/mine/logs" && : >"$work/mine/logs/kept"
run "$work/bundle/first.sh" --rehearse --report "$work/mine" doctor
check "logs of another program: exit code 2" [ "$code" -eq 2 ]
check "logs of another program: they stay, and are named" test -e "$work/mine/logs/kept" -a "$(grep -c 'no report' "$work/stderr")" -eq 1

# Under tools there is nothing to see on the stand-in: they run the program.
for tool in compute-sanitizer cuda-gdb ncu nsys; do
    printf '#!/bin/sh\nwhile [ ! -x "$1" ]; do shift; done\nexec "$@"\n' >"$work/fake/$tool"
    chmod +x "$work/fake/$tool"
done

# rehearsed CHECKS OPTIONS ROWS: the checks, with such options; each of ROWS, with '|' between them, is a part of a row's name. A third of them in each test run.
named=()
rehearsed() {
    local checks=$1 options=$2 wanted
    # shellcheck disable=SC2206 # words
    named+=($checks)
    in_turn 3 || return 0
    IFS='|' read -r -a wanted <<<"$3"
    rm -f "$work/fake/nvidia-smi.calls"
    # shellcheck disable=SC2086 # words
    run env SOFTGPU_UNRULY=1 PATH="$work/fake:$PATH" "$work/bundle/first.sh" --rehearse $options --report "$work/report" $checks
    cp "$work/stdout" "$work/rows"
    check "first.sh ends" [ "$code" -le 1 ]
    check "the report" python3 "$work/check_report" "$work/report/report.json" "the driver makes a context" "${wanted[@]}"
    for name in nvidia-smi gpus topology driver cores shared_memory limits mps interfaces environment; do
        check "machine/$name.txt says something" [ -s "$work/report/machine/$name.txt" ]
    done
    check "a trace stays only where something differs" [ -z "$(find "$work/report/logs" -name trace)" ]
    check "report.md has a line for each row" [ "$(grep -Ec '^\| (ok|differs|measured|not run) \|' "$work/report/report.md")" -eq \
        "$(wc -l <"$work/report/rows")" ]
    # The stand-in does what a GPU would, but that variables lie in the program, and that /proc/self/mem reads managed memory.
    differs=$(sed -n 's/^differs *//p' "$work/rows" | grep -Ev '^(address of a __|managed memory read)')
    check "all but variables and managed memory is as expected: ${differs:-yes}" [ -z "$differs" ]
    # Each block is packed as it ends, and at the end there is all.
    check "the report is packed" [ "$(tar -xOf "$work/report.tar.xz" report/report.json)" = "$(cat "$work/report/report.json")" ]
    check "the report says what each block took" grep -Eq '^\| block [a-z_]+ \| [0-9]+ s of at most [0-9]+ \|$' "$work/report/report.md"
}
rehearsed "doctor exit_order handles addresses tensor_maps reading waits costs arithmetic bandwidth overlap tokens lt_verify host_memory sums check_every world_of_one launch_cost script/inert" "" \
    "one rank, digits_static|cuKernelGetParamInfo of a CUkernel|cudaMalloc, 4 MiB|tensor maps|pinned memory read by a plain load|overlap by events|overlapped steps|cuBLASLt|DDP_REDUCE on two ranks|end-to-end test inert|bandwidth: pack with the look|bandwidth: hash|bandwidth: commit|bandwidth: validation|memory of the host: managed|quotients of float32|CUDA_DEVICE_MAX_CONNECTIONS=1|--check-every 100, chargpt on 2 ranks|world of one against bare, thousands_static|ranks: 2"
rehearsed "reduces nonfinite atomics check scout plan plan_text plan_sums plan_ends frames room" "" \
    "DDP_REDUCE within backward|first NaN of a gradient, in a graph|scout of digits_plain_static|clips by an atomic norm|check of digits|gradients by atomicAdd|cudaDeviceReset at the end, tail|frames of the deepest call of chargpt_plain_static"
[ ! -e "$work/rows" ] || ! grep -q 'memory of the device for two ranks' "$work/rows" ||
    check "memory by state is held against memory by gradients" grep -q 'beside by gradients: 300 MiB more: 500 and 200 MiB' "$work/rows"
rehearsed "own_nccl wrap_nccl deviate nccl_memory tools features gate nccls topology equality_all deviate_all all_reduce_all overlap_all check_every_all odd_ranks lost_rank same_gpu nccl_memory_all all_reduce" "--ranks 3 --nccl $standin/libnccl.so.2" \
    "used an NCCL of its own, deviates_own_static|calls the shared cudart: reduce|ranks meet, registered|ranks meet, all|deviates: sync|CUDA_LAUNCH_BLOCKING=1|memory that 2 ranks take, NCCL_RUNTIME_CONNECT=0, with DDP_REDUCE|under compute-sanitizer|under nsys|feature: programmatic|feature: green|gate|libnccl.so.2: mean|binding of ranks|parameters of one process|a rank of 3 deviates: barrier, NCCL_LOCAL_REGISTER=1|all-reduce of 1 MiB, 3 ranks|overlap by events, 3 ranks|means of all types, 3 ranks|rank 1 of 3 is killed|all ranks have one GPU|--check-every 100, chargpt on 3 ranks|memory that 3 ranks take, NCCL_RUNTIME_CONNECT=1, without|all-reduce of 1 MiB, 2 ranks"

mapfile -t checks < <(bash -c "source '$here/blocks.sh'; printf '%s\n' \"\${all_checks[@]}\"" | sort)
check "each check is in one of the thirds" [ "$(printf '%s\n' "${named[@]}" | grep -v / | sort)" = "$(printf '%s\n' "${checks[@]}")" ]

# ---- time ----
run "$work/bundle/first.sh" --rehearse --report "$work/report" --minutes 1 start scout
check "a block that does not fit into the minutes is left out" grep -q '^not run *block scout: scout: of 1 minutes too little was left' "$work/stdout"
run "$work/bundle/first.sh" --rehearse --report "$work/report" topology
check "a check of more GPUs than there are is left out" grep -q '^not run *block all_start: topology: it needs more than two GPUs' "$work/stdout"
mv "$work/bundle/build/gpu/probe_static" "$work/bundle/build/gpu/probe_static.away"
printf '#!/bin/sh\n[ "$1" = driver ] || exec sleep 1000\n' >"$work/bundle/build/gpu/probe_static"
chmod +x "$work/bundle/build/gpu/probe_static"
run env FIRST_BLOCK_SECONDS=5 "$work/bundle/first.sh" --rehearse --report "$work/report" waits reading
mv "$work/bundle/build/gpu/probe_static.away" "$work/bundle/build/gpu/probe_static"
check "a check that does not end is ended with its block" grep -q '^not run *probe waits: it had not ended after [0-9]* s, when the time of its block was over' "$work/stdout"
check "the next check of the block is not run" grep -q '^not run *probe reading: the time of its block was over' "$work/stdout"
check "a block that is out of time: packed" grep -q 'its block was over' <(tar -xOf "$work/report.tar.xz" report/report.md)
if unshare -m true 2>/dev/null; then
    full "$work/full" 40 "$work/bundle/first.sh" --rehearse --report "$work/full/report" doctor exit_order deviate
    one_line "a report on a full disk" 1 '^first.sh: cannot write the report in .*/full/report: 0 are free on none'
fi

# A rank that fails is a row that differs.
mv "$work/bundle/build/gpu/tokens" "$work/bundle/build/gpu/tokens.away"
printf '#!/bin/sh\nexit 3\n' >"$work/bundle/build/gpu/tokens"
chmod +x "$work/bundle/build/gpu/tokens"
run "$work/bundle/first.sh" --rehearse --report "$work/report" tokens
check "a program that fails: exit code 1" [ "$code" -eq 1 ]
check "a program that fails: two rows differ" grep -q '"differs": 2' "$work/report/report.json"
check "a program that fails: what was run stays" grep -q '/tokens_static 30' "$work"/report/logs/*tokens/command
check "a program that fails: so does what was said" grep -q '^ddprun: ' "$work"/report/logs/*tokens/stderr
check "a program that fails: so does the summary" grep -q exit_code "$work"/report/logs/*tokens/summary.json

# A driver that makes no context: the first row says why, the others that they were not run, and the doctor is asked.
mv "$work/bundle/build/gpu/probe_static" "$work/bundle/build/gpu/probe_static.away"
printf '#!/bin/sh\necho "probe: cudaFree(NULL): CUDA driver is a stub library" >&2\nexit 1\n' >"$work/bundle/build/gpu/probe_static"
chmod +x "$work/bundle/build/gpu/probe_static"
run "$work/bundle/first.sh" --rehearse --report "$work/report" doctor overlap script/inert
check "a driver that cannot serve: exit code 1" [ "$code" -eq 1 ]
check "a driver that cannot serve: a row says why" grep -q '^differs *the driver makes a context: exit code 1: .*stub library$' "$work/stdout"
check "a driver that cannot serve: others are not run" [ "$(grep -c '^not run ' "$work/stdout")" -eq 2 ]
check "a driver that cannot serve: the doctor is asked" [ -s "$work/report/doctor.txt" ]
check "a driver that cannot serve: the report" python3 "$work/check_report" "$work/report/report.json"
mv "$work/bundle/build/gpu/probe_static.away" "$work/bundle/build/gpu/probe_static"

# Whatever a row holds, it is a row of both files.
rm "$work/bundle/build/gpu/probe_static"
printf '#!/bin/sh\n[ "$1" != driver ] || exit 0\nprintf "%%s\\t" "a \\"name\\" \\\\ of" "x|y" z\necho ok\n' >"$work/bundle/build/gpu/probe_static"
chmod +x "$work/bundle/build/gpu/probe_static"
run "$work/bundle/first.sh" --rehearse --report "$work/report" reading
check "quotes and bars: in report.json" python3 "$work/check_report" "$work/report/report.json" 'a "name" \ of'
check "quotes and bars: in report.md" grep -qF '| x\|y | z | logs/' "$work/report/report.md"

# ---- MPS: one of our own in a folder of its own, and its end ----
cat >"$work/fake/nvidia-cuda-mps-control" <<'SHELL'
#!/bin/sh
[ "$1" = -d ] && command=start || read -r command
printf '%s %s\n' "$command" "$CUDA_MPS_PIPE_DIRECTORY" >>"$MPS_CALLS"
SHELL
chmod +x "$work"/fake/*
# first.sh does the same for the blocks in which ranks share a GPU, and for no others.
MPS_CALLS=$work/calls PATH=$work/fake:$PATH run "$work/bundle/first.sh" --report "$work/report" doctor lt_verify
check "first.sh, MPS: started and ended once" [ "$(cut -d ' ' -f 1 "$work/calls" | paste -sd ' ')" = "start quit" ]
check "first.sh, MPS: the report says so" grep -q '^| MPS | ranks that share a GPU run at the same time' "$work/report/report.md"
: >"$work/calls"
MPS_CALLS=$work/calls PATH=$work/fake:$PATH run "$work/bundle/first.sh" --report "$work/report" --no-mps doctor lt_verify
check "first.sh --no-mps: none is started" [ ! -s "$work/calls" ]
rm "$work/calls"
MPS_CALLS=$work/calls PATH=$work/fake:$PATH run bash "$here/run.sh" "$work/bundle/build" inert
read -r verb place <"$work/calls"
check "MPS: started first" [ "$verb" = start ]
check "MPS: a pipe folder of its own, which is gone" bash -c "[[ '$place' == $work/ddprun-gpu-*/mps ]] && [ ! -e '$place' ]"
check "MPS: ended once, in the same folder" [ "$(tail -n +2 "$work/calls")" = "quit $place" ]
: >"$work/calls"
MPS_CALLS=$work/calls PATH=$work/fake:$PATH run bash "$here/run.sh" --no-mps "$work/bundle/build" inert
check "--no-mps: none is started" [ ! -s "$work/calls" ]

# A checkout without a build takes that of a bundle.
works "run.sh of the checkout with the programs of a bundle" bash "$here/run.sh" --rehearse "$work/bundle/build" inert
run bash "$here/run.sh" --rehearse "$work/nothing" inert
one_line "run.sh without a build" 2 'no ddprun in .*bundle'
run bash "$here/run.sh" --rehearse "$work/bundle/build" everything
one_line "an unknown script" 2 'everything: unknown script'
finish
