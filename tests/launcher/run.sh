#!/bin/bash
# run.sh BUILD - the real ddprun, with helper programs for trainers and stubs for the libraries that it preloads.
#
# Each case prints `ok - name`, `not ok - name (why)` or `skip - name (why)`; exits 1 if one is not ok. Needs no GPU. All that is
# started is ended by its id; all files are in one temporary folder. A case waits for conditions with a deadline, never for a time.
set -u

build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
helpers=$build/tests/launcher
for part in bin/ddprun tests/launcher/{launcher_fake,launcher_fake_softgpu,launcher_pmix_client,liblauncher_{stub_nvml,stop_before_exec}.so}; do
    if [ ! -e "$build/$part" ]; then
        echo "not ok - launcher (no $build/$part: build it first)"
        exit 1
    fi
done
top=$(mktemp -d)
export TMPDIR=$top/tmp
mkdir -p "$top/tmp" "$top/bin" "$top/lib/softgpu" "$top/gpu"
started=()
failures=0

# The launcher finds its libraries from its own place: a private copy with stubs, whatever else the build holds.
cp "$build/bin/ddprun" "$top/bin/ddprun"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/libddprun.so"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/libddprun-engine.so"
cp "$helpers/liblauncher_stub_library.so" "$top/lib/softgpu/libcuda.so.1"
cp "$helpers/liblauncher_stub_nvml.so" "$top/gpu/libnvidia-ml.so.1"
ddprun=$top/bin/ddprun
fake=$helpers/launcher_fake_softgpu
unset XDG_RUNTIME_DIR CUDA_VISIBLE_DEVICES SOFTGPU_DEVICES LD_PRELOAD LD_LIBRARY_PATH NCCL_HOSTID NCCL_SOCKET_IFNAME NO_COLOR
# Memory that PMIx keeps until its end is not what is looked for here.
export LSAN_OPTIONS=suppressions=$top/lsan:print_suppressions=0
printf 'leak:libpmix\nleak:libhwloc\nleak:libevent\n' >"$top/lsan"

clean_up() {
    local pid
    for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    for pid in $(cat "$top"/pids*/* 2>/dev/null); do is_alive "$pid" && kill -KILL "$pid"; done
    rm -rf "$top"
}
trap clean_up EXIT

ok() { echo "ok - $1"; }
not_ok() {
    echo "not ok - $1 ($2)"
    failures=$((failures + 1))
}
# report NAME WHY: ok if WHY is empty.
report() { if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$2"; fi; }

is_alive() {
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 1
    [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}
# within SECONDS COMMAND...: waits until it succeeds.
within() {
    local end=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}
all_gone() {
    local pid
    for pid in $(cat "$1"/*); do is_alive "$pid" && return 1; done
    return 0
}
files_in() { [ "$(find "$1" -type f ! -name '*.new' | wc -l)" -ge "$2" ]; }
new_pids() { pids=$(mktemp -d "$top/pidsXXXXXX"); }

# run ARGS...: ddprun in the foreground; sets rc, out and err (files).
run() { run_in_front timeout -k 1 60 "$ddprun" "$@"; }
run_in_front() {
    out=$top/out err=$top/err
    "$@" >"$out" 2>"$err" </dev/null
    rc=$?
}
# start ARGS...: in the background; sets job. Signals that a background job of a shell ignores are given back.
start() {
    out=$top/out err=$top/err
    env --default-signal=INT,QUIT "$ddprun" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
    started+=("$job")
}
# finish: waits for the job with a deadline; sets rc.
finish() {
    if ! within 20 is_gone "$job"; then
        rc=hangs
        kill -KILL "$job"
    else
        { wait "$job"; } 2>/dev/null # bash would say "Killed"
        rc=$?
    fi
}
is_gone() { ! is_alive "$1"; }

# expect RC [FILE REGEX]...: prints what does not hold.
expect() {
    [ "$rc" = "$1" ] || echo -n "exit code $rc, not $1: $(head -c 300 "$err" | tr '\n' '|') "
    shift
    while [ $# -gt 1 ]; do
        grep -aqE -- "$2" "$1" || echo -n "no /$2/ in: $(head -c 300 "$1" | tr '\n' '|') "
        shift 2
    done
}
no_folders_left() { [ -z "$(ls -A "$TMPDIR" 2>/dev/null)" ] || echo -n "left in TMPDIR: $(ls "$TMPDIR") "; }

# ---- bad input: its exit code, one line on stderr, nothing on stdout ----
bad() {
    local name=$1 code=$2 regex=$3 why
    shift 3
    run "$@"
    why=$(expect "$code" "$err" "^ddprun: .*$regex")
    [ "$(wc -l <"$err")" = 1 ] || why+="$(wc -l <"$err") lines on stderr "
    [ ! -s "$out" ] || why+="something on stdout "
    report "$name" "$why$(no_folders_left)"
}
mkdir "$top/folder"
printf 'plain text\n' >"$top/text" && chmod 755 "$top/text"
printf '#!/bin/sh\n' >"$top/script" && chmod 644 "$top/script"
printf '#!/no/such/interpreter\n' >"$top/script_lost" && chmod 755 "$top/script_lost"
printf '#!/bin/sh\r\necho\r\n' >"$top/script_crlf" && chmod 755 "$top/script_crlf"
printf '#!%s\n' "$helpers/launcher_fake_static" >"$top/script_static" && chmod 755 "$top/script_static"
head -c 100 "$fake" >"$top/cut" && chmod 755 "$top/cut"
cp "$fake" "$top/arm" && printf '\267' | dd of="$top/arm" bs=1 seek=18 conv=notrunc 2>/dev/null
cp "$fake" "$top/object" && printf '\001' | dd of="$top/object" bs=1 seek=16 conv=notrunc 2>/dev/null
soft="--device softgpu"
# ddprun cannot ask the stand-in how many devices it makes at most.
most_devices=$(sed -n 's/^ *DEVICE_LIMIT = \([0-9]*\),$/\1/p' "$(dirname "${BASH_SOURCE[0]}")/../../softgpu/cuda/driver.h")
# shellcheck disable=SC2086
{
    bad "no program" 2 "no program" $soft -n 2
    bad "--env of what ranks are told" 2 "'RANK' is what ddprun itself tells each rank" --env RANK=7 "$fake"
    bad "--env of the GPUs" 2 "which GPUs: --gpus" --env CUDA_VISIBLE_DEVICES=3 "$fake"
    DDPRUN_BUKET_MB=3 bad "a mistyped variable" 2 "DDPRUN_BUKET_MB, in the environment, is no setting; did you mean DDPRUN_BUCKET_MB" "$fake"
    bad "quiet and verbose" 2 "contradict each other" -q -v "$fake"
    bad "-n 0" 2 "'0' is not a number of ranks" -n 0 "$fake"
    bad "-n abc" 2 "'abc' is not a number" -n abc "$fake"
    bad "-n -1" 2 "'-1' is not" -n -1 "$fake"
    bad "-n 257" 2 "from 1 to 256" -n 257 "$fake"
    bad "-n without value" 2 "wants a value" -n
    bad "--bucket-mb 0" 2 "'0' is not a size" --bucket-mb 0 "$fake"
    bad "--bucket-mb nan" 2 "'nan' is not a size" --bucket-mb nan "$fake"
    bad "an argument that speaks to the terminal" 2 "'\?\[31mé\?\?' names no GPU" --gpus $'\033[31mé\302\233\377' "$fake"
    bad "--device tpu" 2 "'tpu' is not one of" --device tpu "$fake"
    bad "--timeout 0" 2 "'0' is not" --timeout 0 "$fake"
    bad "--gpus x" 2 "'x' names no GPU" --gpus x "$fake"
    bad "unknown long option" 2 "unknown or ambiguous option --frobnicate" --frobnicate "$fake"
    bad "unknown letter" 2 "unknown option -z" -z "$fake"
    bad "a value where none belongs" 2 "takes no value" --no-overlap=3 "$fake"
    bad "no such program" 127 "cannot start $top/nowhere: No such file" "$top/nowhere"
    bad "no such command" 127 "not found, in the folders of .PATH" no-such-command-here
    bad "a folder" 127 "it is a folder" "$top/folder"
    bad "not executable" 127 "not executable" "$top/script"
    bad "neither program nor script" 127 "neither an ELF program nor a script" "$top/text"
    bad "script without interpreter" 127 "/no/such/interpreter" "$top/script_lost"
    bad "script with line ends of Windows" 127 "line ends of Windows" "$top/script_crlf"
    bad "script with a static interpreter" 127 "static executable" "$top/script_static"
    bad "static executable" 127 "static executable" $soft "$helpers/launcher_fake_static"
    bad "static position independent executable" 127 "static executable" $soft "$helpers/launcher_fake_static_pie"
    bad "shared library" 127 "is a shared library, which cannot be started; name the program" "$helpers/liblauncher_stub_library.so"
    bad "cut executable" 127 "damaged" "$top/cut"
    bad "another processor" 127 "another processor" "$top/arm"
    bad "object file" 127 "object file" "$top/object"
    bad "no NCCL there" 2 "cannot read /no/nccl.so, in --nccl" --nccl /no/nccl.so "$fake"
    bad "NCCL is a folder" 2 "is not a file, in --nccl" --nccl "$top/folder/" "$fake"
    bad "trace in no folder" 2 "in --trace" --trace "$top/no/such" "$fake"
    bad "trace is a file" 2 "in --trace, is not a folder" --trace "$top/text" "$fake"
    bad "GPU wanted for a stand-in's program" 2 "built by softgpu-cc and cannot use a GPU" --device gpu "$fake"
    bad "--gpus without devices to choose from" 2 "--gpus chooses among GPUs" --gpus 0,1 "$fake"
    SOFTGPU_DEVICES=2 bad "more ranks than the stand-in's devices" 2 "3 ranks want a GPU each, but there are 2" -n 3 "$fake"
    SOFTGPU_DEVICES=x bad "SOFTGPU_DEVICES=x" 2 "SOFTGPU_DEVICES='x'" "$fake"
    SOFTGPU_DEVICES=$((most_devices + 1)) bad "more devices than the stand-in makes" 2 "SOFTGPU_DEVICES='$((most_devices + 1))' is no number of devices that the stand-in can make; set it to 1 to $most_devices" "$fake"
    SOFTGPU_DEVICES=4 bad "--gpus of the stand-in, mistyped" 2 "there is no GPU GPU-1234, in --gpus: the stand-in makes 4" --gpus 0,GPU-1234 "$fake"
    SOFTGPU_DEVICES=4 bad "--gpus of the stand-in, one in two ways" 2 "GPU 1 is named twice" --gpus 1,GPU-1 "$fake"
    SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,3 bad "--gpus beyond what is visible" 2 "there is no GPU 3, in --gpus: 2 visible" --gpus 3 "$fake"
    SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=7 bad "none of the stand-in's devices visible" 2 "leaves no GPU: its first entry is none of the stand-in's" "$fake"
    TMPDIR=$top/absent bad "TMPDIR absent" 1 "cannot use $top/absent" "$fake" exit 0
    OMPI_COMM_WORLD_SIZE=2 bad "started by mpirun -n 2" 2 "another launcher" -n 2 "$fake"
}
if [ "$(id -u)" = 0 ]; then
    cp "$fake" "$top/setuid" && chown 65534 "$top/setuid" && chmod 4755 "$top/setuid"
    bad "setuid program" 127 "other rights" "$top/setuid"
else
    echo "skip - setuid program (only root can make a file of somebody else)"
fi
# Rights that ddprun itself would lend to whatever it starts. Such a process cannot be looked into, also not for leaks.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$top" "$top/bin"
    for mode in 4755 2755; do
        if [ "$mode" = 2755 ] && ldd "$build/bin/ddprun" | grep -q libasan; then
            echo "skip - ddprun with mode 2755 (AddressSanitizer's runtime cannot read its options in such a process)"
            continue
        fi
        cp "$build/bin/ddprun" "$top/bin/other-rights" && chmod "$mode" "$top/bin/other-rights"
        run_in_front timeout -k 1 60 env ASAN_OPTIONS=detect_leaks=0 setpriv --reuid=65534 --regid=65534 --clear-groups "$top/bin/other-rights" "$fake" exit 0
        report "ddprun with mode $mode" "$(expect 2 "$err" '^ddprun: ddprun has other rights than its user')"
    done
    cp "$build/bin/ddprun" "$top/bin/other-rights" && chmod 755 "$top/bin/other-rights"
    if setcap cap_net_raw+ep "$top/bin/other-rights" 2>/dev/null; then
        run_in_front timeout -k 1 60 env ASAN_OPTIONS=detect_leaks=0 setpriv --reuid=65534 --regid=65534 --clear-groups "$top/bin/other-rights" "$fake" exit 0
        report "ddprun with a capability" "$(expect 2 "$err" '^ddprun: ddprun has other rights than its user')"
    else
        echo "skip - ddprun with a capability (no setcap, or not on this file system)"
    fi
    rm "$top/bin/other-rights"
else
    echo "skip - ddprun with other rights (only root can make such a file, and setpriv leaves root)"
fi
run
report "without arguments it says what it is" "$(expect 2 "$err" '^ddprun: trains a single-GPU CUDA program' "$err" '^  ddprun -n 8')"
for missing in libddprun.so libddprun-engine.so softgpu; do
    mv "$top/lib/$missing" "$top/lib/gone"
    bad "missing $missing" 127 "is missing: $top/lib/$missing" "$fake"
    mv "$top/lib/gone" "$top/lib/$missing"
done
mkdir "$top/a b" && cp -r "$top/bin" "$top/lib" "$top/a b"
ddprun="$top/a b/bin/ddprun" bad "blank in the folder's name" 127 "blank" "$fake"

# ---- GPUs, with a stub of NVML ----
gpu_run() {
    local gpus=$1
    shift
    run_in_front env STUB_GPUS="$gpus" LD_LIBRARY_PATH="$top/gpu" timeout -k 1 60 "$ddprun" "$@"
}
plain=$helpers/launcher_fake
if [ ! -e /dev/nvidia0 ]; then
    run "$plain" exit 0
    report "no GPU: says what was looked for" "$(expect 2 "$err" 'no NVIDIA driver \(libnvidia-ml.so.1.*--device softgpu')"
    gpu_run 0 "$plain" exit 0
    report "a driver, but no GPU" "$(expect 2 "$err" 'no GPU \(asked NVML\)')"
else
    echo "skip - no GPU: says what was looked for (this machine has one)"
    echo "skip - a driver, but no GPU (this machine has one)"
fi
gpu_run 2 -n 3 "$plain" exit 0
report "more ranks than GPUs" "$(expect 2 "$err" '3 ranks want a GPU each, but there are 2')"
gpu_run 2 "$plain" env CUDA_VISIBLE_DEVICES env NCCL_HOSTID env LD_LIBRARY_PATH
report "one rank per GPU by default" "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=0' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=1' \
    "$out" 'NCCL_HOSTID unset' "$out" "LD_LIBRARY_PATH=$top/gpu\$")"
gpu_run 8 --gpus 6,2-3 "$plain" env CUDA_VISIBLE_DEVICES
report "--gpus in its order" "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=6' "$out" '^\[2\] CUDA_VISIBLE_DEVICES=3')"
CUDA_VISIBLE_DEVICES=5,3 gpu_run 8 --gpus 1 -n 1 "$plain" env CUDA_VISIBLE_DEVICES
report "--gpus counts within CUDA_VISIBLE_DEVICES" "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=3')"
gpu_run 1 -n 2 --share-gpu "$plain" env CUDA_VISIBLE_DEVICES env NCCL_HOSTID env NCCL_SOCKET_IFNAME
why=$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=0' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=0' "$out" '^NCCL_SOCKET_IFNAME=lo')
[ "$(grep -ao 'NCCL_HOSTID=.*' "$out" | sort -u | wc -l)" = 2 ] || why+="NCCL_HOSTID is not distinct"
report "--share-gpu" "$why"
NCCL_SOCKET_IFNAME=eth7 gpu_run 1 -n 2 --share-gpu "$plain" env NCCL_SOCKET_IFNAME
report "--share-gpu keeps the user's NCCL_SOCKET_IFNAME" "$(expect 0 "$out" '^NCCL_SOCKET_IFNAME=eth7')"

# ---- the stand-in ----
run -n 2 "$fake" env LD_LIBRARY_PATH env SOFTGPU_DEVICES env CUDA_VISIBLE_DEVICES
report "a program's note chooses the stand-in" \
    "$(expect 0 "$out" "^LD_LIBRARY_PATH=$top/lib/softgpu\$" "$out" '^SOFTGPU_DEVICES=1' "$out" '^CUDA_VISIBLE_DEVICES unset')"
SOFTGPU_DEVICES=3 run "$fake" env CUDA_VISIBLE_DEVICES env SOFTGPU_DEVICES
report "SOFTGPU_DEVICES gives each rank one of them" \
    "$(expect 0 "$out" '^\[2\] CUDA_VISIBLE_DEVICES=2' "$out" '^\[1\] SOFTGPU_DEVICES=3')"
SOFTGPU_DEVICES=$most_devices run -n 1 --gpus "$((most_devices - 1))" "$fake" env CUDA_VISIBLE_DEVICES
report "as many devices as the stand-in makes" "$(expect 0 "$out" "^CUDA_VISIBLE_DEVICES=$((most_devices - 1))")"
SOFTGPU_DEVICES=4 CUDA_VISIBLE_DEVICES=2,GPU-3 run --gpus 1,0 "$fake" env CUDA_VISIBLE_DEVICES
report "--gpus counts within CUDA_VISIBLE_DEVICES on the stand-in too" \
    "$(expect 0 "$out" '^CUDA_VISIBLE_DEVICES=3' "$out" '^\[1\] CUDA_VISIBLE_DEVICES=2')"

# ---- what a rank finds ----
# A launcher that is itself built with AddressSanitizer wants its runtime first among what is preloaded.
asan=$(ldd "$ddprun" | sed -n 's/.*=> \(.*libasan[^ ]*\) .*/\1/p')
run_in_front timeout -k 1 60 env LD_PRELOAD="$asan:$helpers/liblauncher_stub_library.so" "$ddprun" -n 2 --bucket-mb 0.5 --no-overlap --check-every 7 --timeout 9 --nccl nccl.so \
    --trace "$top/trace" "$fake" env RANK env WORLD_SIZE env LOCAL_RANK env LOCAL_WORLD_SIZE env LD_PRELOAD env DDPRUN_BUCKET_BYTES \
    env DDPRUN_OVERLAP env DDPRUN_CHECK_EVERY env DDPRUN_TIMEOUT_S env DDPRUN_NCCL env DDPRUN_TRACE_DIR env DDPRUN_ENGINE
report "environment of a rank" "$(expect 0 "$out" '^\[1\] RANK=1' "$out" '^\[1\] WORLD_SIZE=2' "$out" '^\[1\] LOCAL_RANK=1' \
    "$out" '^LOCAL_WORLD_SIZE=2' "$out" "^LD_PRELOAD=$asan:$helpers/liblauncher_stub_library.so:$top/lib/libddprun.so\$" \
    "$out" '^DDPRUN_BUCKET_BYTES=524288$' "$out" '^DDPRUN_OVERLAP=0' "$out" '^DDPRUN_CHECK_EVERY=7' "$out" '^DDPRUN_TIMEOUT_S=9' \
    "$out" '^DDPRUN_NCCL=nccl.so' "$out" "^DDPRUN_TRACE_DIR=$top/trace\$" "$out" "^DDPRUN_ENGINE=$top/lib/libddprun-engine.so")"
# A process that stays before its program is not waited for for ever, nor left behind.
new_pids
run_in_front timeout -k 1 60 env LD_PRELOAD="$asan:$helpers/liblauncher_stop_before_exec.so" "$ddprun" -n 3 --timeout 3 "$fake" pid "$pids" hang
report "a process that is stopped before its program" \
    "$(expect 1 "$err" "^ddprun: the process of rank 1 has not come to start $fake within 3 s: it is stopped")$(no_folders_left)$(files_in "$pids" 1 || echo "rank 0 has not run ")$(within 10 all_gone "$pids" || echo "ranks are left ")"
# Nor does it keep the job from being ended.
has_stopped_child() {
    local child
    for child in $(cat "/proc/$1/task/$1/children"); do grep -q '^State:.T' "/proc/$child/status" && return 0; done
    return 1
}
new_pids
LD_PRELOAD="$asan:$helpers/liblauncher_stop_before_exec.so" start -n 3 --max-restarts 1 "$fake" pid "$pids" hang
within 20 has_stopped_child "$job"
kill -TERM "$job"
finish
report "a start that is held up can be ended" \
    "$(expect 143 "$err" "^ddprun: SIGTERM while the process of rank 1 had not come to start $fake" "$err" '^ddprun: no restart')$(no_folders_left)$(within 10 all_gone "$pids" || echo "ranks are left ")"
DDPRUN_TRACE_DIR=/old DDPRUN_BUCKET_BYTES=7 run "$fake" env DDPRUN_TRACE_DIR env DDPRUN_BUCKET_BYTES
report "old variables do not reach a rank" "$(expect 0 "$out" 'DDPRUN_TRACE_DIR unset' "$out" 'DDPRUN_BUCKET_BYTES=0$')"
grep -E 'Sig(Blk|Ign)' /proc/self/status >"$top/wanted"
# shellcheck disable=SC2086
run $soft -n 2 grep -E 'Sig(Blk|Ign)' /proc/self/status
report "a rank's signals are those of a bare program" \
    "$(expect 0)$(diff <(sed 's/.*\] //' "$out" | sort) <(sort "$top/wanted" "$top/wanted") | head -3)"
# shellcheck disable=SC2086
run $soft -n 2 hostname
report "a program that has nothing to do with GPUs" "$(expect 0 "$out" "^$(hostname)\$" "$out" "^\[1\] $(hostname)\$")$([ -s "$err" ] && cat "$err")"
run -n 16 "$helpers/launcher_fake_softgpu" env RANK
report "16 ranks" "$(expect 0 "$out" '^\[15\] RANK=15')$([ "$(wc -l <"$out")" = 16 ] || echo "not 16 lines")"
run --version
report "--version" "$(expect 0 "$out" '^ddprun [0-9]+\.[0-9]+\.[0-9]+ ')"
run --help
report "--help" "$(expect 0 "$out" '^  ddprun -n 8 ./train' "$out" '--share-gpu')"
run --help-all
report "--help-all" "$(expect 0 "$out" '^Exit codes:' "$out" '--share-gpu')"

# ---- settings, and the program's surroundings ----
export XDG_CONFIG_HOME=$top/config # not the settings of whoever runs the tests
mkdir -p "$top/config/ddprun" "$top/elsewhere"
printf '{ "ranks": 2, "check-every": 5, "timeout": 40 }\n' >"$top/config/ddprun/config.json"
printf '{ "ranks": 3 }\n' >"$top/other.json"
DDPRUN_CHECK_EVERY=6 DDPRUN_BUCKET_MB=1 run --timeout 50 "$fake" env DDPRUN_CHECK_EVERY env DDPRUN_BUCKET_BYTES env DDPRUN_TIMEOUT_S
report "settings: environment, file, command line" "$(expect 0 "$out" '^\[1\] DDPRUN_CHECK_EVERY=5' "$out" '^DDPRUN_BUCKET_BYTES=1048576' \
    "$out" '^DDPRUN_TIMEOUT_S=50')"
run --config "$top/other.json" "$fake" env RANK
report "--config instead of the user's own" "$(expect 0 "$out" '^\[2\] RANK=2')"
rm "$top/config/ddprun/config.json"
mkdir "$top/here" && printf '{ "ranks": 9 }\n' >"$top/here/config.json"
run_in_front sh -c 'cd "$1" && timeout -k 1 60 "$0" "$2" env WORLD_SIZE' "$ddprun" "$top/here" "$fake"
report "the current folder is not searched" "$(expect 0 "$out" '^WORLD_SIZE=1')"
run -n 2 --env 'WHO=I am {rank} of {world_size}' --subst "$fake" env WHO env RANK say 'at {local_rank} {other}'
report "--env and --subst" "$(expect 0 "$out" '\[1\] WHO=I am 1 of 2$' "$out" '\[1\] RANK=1' "$out" 'at 1 \{other\}')"
# shellcheck disable=SC2086
run $soft -n 2 --cwd "$top/elsewhere" pwd
report "--cwd" "$(expect 0 "$out" "^$top/elsewhere\$" "$out" "^\[1\] $top/elsewhere\$")"
run_in_front sh -c 'cd "$1" && timeout -k 1 60 "$0" -n 2 --cwd "$2" ./launcher_fake_softgpu env RANK' "$ddprun" "$helpers" "$top/elsewhere"
report "--cwd keeps the program that was found from here" "$(expect 0 "$out" '^\[1\] RANK=1')"
bad "--cwd to nowhere" 2 "is not a folder that can be entered" --cwd "$top/nowhere" "$fake"
bad "a mistyped option" 2 "did you mean --bucket-mb" --bukcet-mb 3 "$fake"

# shellcheck disable=SC2016,SC2086
run $soft -n 2 --dry-run --subst --env "WORD=it's" --trace "$top/dry-trace" --output "files=$top/dry-files" sh -c 'echo $RANK "$WORD" "$1"' sh 'a  b{rank}'
why=$(expect 0 "$out" '^# rank 1, on')
[ ! -e "$top/dry-trace" ] && [ ! -e "$top/dry-files" ] || why+="--dry-run made a folder "
[ ! -s "$err" ] || why+="said: $(cat "$err") "
sed -i 's/^env /env -u LD_PRELOAD /; s/LD_PRELOAD=[^ ]* //' "$out" # started by hand there is no job to join
sh "$out" >"$top/by-hand" 2>&1 || why+="what it prints does not run: $(tail -1 "$top/by-hand") "
[ "$(cat "$top/by-hand")" = "$(printf "0 it's a  b0\n1 it's a  b1")" ] || why+="by hand: $(cat "$top/by-hand") "
report "--dry-run prints commands that a shell runs" "$why"

# ---- where output goes, and the summary ----
run -n 3 --output "files=$top/files" "$fake" say out complain err
why=$(expect 0)
[ ! -s "$out" ] && [ ! -s "$err" ] || why+="something came through "
for rank in 0 1 2; do
    [ "$(cat "$top/files/rank-$rank.out")" = out ] && [ "$(cat "$top/files/rank-$rank.err")" = err ] || why+="rank $rank's files are wrong "
done
report "--output files" "$why"
run -n 3 --output rank0 "$fake" say out complain err
why=$(expect 0 "$err" '\[2\] err$')
[ "$(cat "$out")" = out ] || why+="stdout: $(cat "$out") "
report "--output rank0" "$why"
run -n 3 --output none "$fake" say out complain err
report "--output none" "$(expect 0)$(cat "$out" "$err")"
bad "--output into a file" 2 "is not a folder" --output "files=$top/text" "$fake"
run -n 2 --summary-json "$top/end.json" "$fake" exit 0
why=$(expect 0)
grep -q '"exit_code":0' <(tr -d ' \n' <"$top/end.json") || why+="$(cat "$top/end.json") "
run -n 2 --summary-json "$top/end.json" "$fake" @1 exit 7
why+=$(expect 7)
grep -q '"exit_code":7.*"reason":"rank1endedwithexitcode7' <(tr -d ' \n' <"$top/end.json") || why+="$(cat "$top/end.json") "
report "--summary-json" "$why$(find "$top" -name 'end.json.*')"
# What an earlier job left is not taken for the end of one that was never started.
run --summary-json "$top/end.json" "$fake" exit 0
run --dry-run --summary-json "$top/end.json" "$top/nowhere"
why=$(cmp <(echo 0) <(tr -d ' ,' <"$top/end.json" | sed -n 's/^"exit_code"://p' | head -1))
for refused in "127:cannot start:$top/nowhere" "2:in --cwd:--cwd $top/nowhere $fake" "2:3 ranks want:-n 3 $fake"; do
    IFS=: read -r code text arguments <<<"$refused"
    # shellcheck disable=SC2086
    SOFTGPU_DEVICES=2 run --summary-json "$top/end.json" $arguments
    why+=$(expect "$code" "$top/end.json" "^ *\"exit_code\": *$code,$" "$top/end.json" "\"reason\": *\".*$text" "$top/end.json" '"ranks": *0,')
done
report "--summary-json of a job that is refused" "$why$(find "$top" -name 'end.json.*')"
bad "--summary-json to nowhere" 2 "cannot write to" --summary-json "$top/nowhere/end.json" "$fake"

# ---- restarts ----
run -n 1 --max-restarts 2 "$fake" env DDPRUN_RESTART exit 7
why=$(expect 7 "$err" '^ddprun: restart 2 of 2' "$out" '^DDPRUN_RESTART=2')
[ "$(grep -c '^DDPRUN_RESTART' "$out")" = 3 ] || why+="$(grep -c '^DDPRUN_RESTART' "$out") runs "
report "--max-restarts" "$why$(no_folders_left)"
run -n 2 --max-restarts 2 "$fake" exit 0
report "no restart of what went well" "$(expect 0)$(cat "$err")"
run --max-restarts 2 --bucket-mb 0 "$fake"
report "no restart of what cannot be started" "$(expect 2)$(grep restart "$err")"
TMPDIR=$top/absent run --max-restarts 2 "$fake"
report "nor of what cannot be prepared" "$(expect 1 "$err" 'cannot use')$(grep restart "$err")"
# Whatever a rank ends with, also where ddprun itself uses that number, or a signal at ddprun would have given it.
for end in exit:2:2 exit:127:127 kill:2:130 kill:15:143; do
    IFS=: read -r verb number code <<<"$end"
    run -n 1 --max-restarts 1 "$fake" env DDPRUN_RESTART "$verb" "$number"
    report "a restart after a rank's $verb $number" "$(expect "$code" "$err" '^ddprun: restart 1 of 1' "$out" '^DDPRUN_RESTART=1')"
done
# full NAME: a pipe that takes nothing more, in $top; its reader is this script, which does not read.
full() {
    mkfifo "$top/$1"
    # shellcheck disable=SC2034 # kept open to the end
    exec {unread}<>"$top/$1"
    dd if=/dev/zero of="$top/$1" bs=4096 oflag=nonblock 2>/dev/null
}
# A signal that comes while the job ends already: here it cannot leave before its output is read.
full restarted
env "$ddprun" -n 2 --max-restarts 1 "$fake" @1 hang @0 say "words" exit 3 >"$top/restarted" 2>"$top/err" </dev/null &
job=$!
started+=("$job")
err=$top/err
within 20 grep -q 'rank 0 ended with exit code 3' "$err" || not_ok "the job ends" "no reason on stderr"
kill -TERM "$job"
finish
report "no restart after a signal while the job ended" "$(expect 3 "$err" '^ddprun: no restart: a signal')$(no_folders_left)"
# PMIx's server, which ends with the process alone, had variables, files and sockets.
# shellcheck disable=SC2016 # the rank's shell
run --device softgpu -n 1 --max-restarts 2 sh -c 'set -- /proc/$PPID/fd/*; echo "HWLOC ${HWLOC_COMPONENTS-unset}, $# open"; exit 7'
why=$(expect 7 "$err" '^ddprun: restart 2 of 2' "$out" '^HWLOC unset')
[ "$(sort "$out" | uniq -c | grep -c ' 3 ')" = 1 ] || why+="not alike: $(cat "$out") "
report "a restart begins anew" "$why$(no_folders_left)"

# ---- input and output ----
run_in_front sh -c 'printf "some\ninput" | timeout -k 1 60 "$0" -n 2 "$1" cat' "$ddprun" "$fake"
report "stdin goes to rank 0 alone" "$(expect 0 "$out" '^<some' "$out" '^input>' "$out" '^\[1\] <>')"
run -n 2 "$fake" @1 say "no newline" complain "oops"
report "an unfinished line is passed on" "$(expect 0 "$out" '^\[1\] no newline$' "$err" '^\[1\] oops$')"
run -n 3 "$fake" flood 200000
why=$(expect 0)
for rank in '' '\[1\] ' '\[2\] '; do
    [ "$(grep -acE "^${rank}line [0-9]{10} of a rank that has a great deal to say\$" "$out")" = 200000 ] || why+="lines of '$rank' are missing "
done
report "a flood of lines comes through whole" "$why"
run_in_front sh -c 'timeout -k 1 60 "$0" -n 2 "$1" flood 2000 complain "middle
" flood 2000 complain "end
" 2>&1' "$ddprun" "$fake"
for word in middle end; do
    seq -f 'line %010.0f of a rank that has a great deal to say' 0 1999
    echo $word
done >"$top/wanted"
report "with 2>&1 rank 0 keeps the order of its two streams" "$(expect 0)$(grep -av '^\[1\] ' "$out" | cmp "$top/wanted" - 2>&1)"
run -n 2 "$fake" @1 longline 300000
sed -n 's/^\[1\] \(.*\)/\1/p; s/^\[1\]+\(.*\)/\1/p' "$out" | tr -d '\n' >"$top/joined"
python3 -c "import sys; sys.stdout.buffer.write(bytes(0 if i % 251 == 10 else i % 251 for i in range(300000)))" >"$top/wanted"
report "a long line of any bytes comes in pieces" "$(expect 0)$(cmp "$top/joined" "$top/wanted" 2>&1)"
run_in_front sh -c 'timeout -k 1 60 "$0" -n 2 "$1" say "hello
" <&- >&- 2>&-' "$ddprun" "$fake"
report "closed descriptors" "$(expect 0)"
if command -v script >/dev/null; then
    run_in_front env TERM=xterm timeout -k 1 60 script -qec "'$ddprun' --device softgpu -n 2 sh -c 'test -t 1 && echo yes; echo line'" /dev/null
    report "a terminal stays one for rank 0, prefixes get colour" \
        "$(expect 0 "$out" '^yes' "$out" $'^\033\\[33m\\[1\\]\033\\[0m line')$(grep -c yes "$out" | grep -vx 1)"
    run_in_front env NO_COLOR=1 TERM=xterm timeout -k 1 60 script -qec "'$ddprun' --device softgpu -n 2 sh -c 'echo line'" /dev/null
    report "NO_COLOR" "$(expect 0 "$out" '^\[1\] line')"
    run_in_front sh -c 'printf "typed\n" | timeout -k 1 60 script -qec "\"$0\" -n 2 --device softgpu sh -c \"read word; echo got-\\\$word\"" /dev/null' "$ddprun"
    report "what is typed goes to rank 0" "$(expect 0 "$out" '^got-typed')"
else
    echo "skip - a terminal stays one for rank 0 (no script(1))"
fi
new_pids
mkfifo "$pids/../fifo"
exec 7<>"$top/fifo"
env "$ddprun" -n 3 "$fake" pid "$pids" @1 flood 100000000 @0 await "$pids/go" exit 3 @2 hang >"$top/fifo" 2>"$top/err" </dev/null &
job=$!
started+=("$job")
within 20 files_in "$pids" 3 || not_ok "ranks started" "no pids"
touch "$pids/go.tmp" && mv "$pids/go.tmp" "$pids/go"
rm "$pids/go.tmp" 2>/dev/null
within 10 sh -c '! kill -0 "$(cat "$0/rank2")" 2>/dev/null || grep -q "State:.Z" "/proc/$(cat "$0/rank2")/status"' "$pids" || why=late
report "a reader that does not read holds up nobody's end" \
    "$(within 10 grep -q 'rank 0 ended with exit code 3' "$top/err" || cat "$top/err")"
cat <&7 >/dev/null 2>&1 &
started+=($!)
finish
kill "${started[-1]}"
exec 7<&-
err=$top/err report "and its job ends with the failure's code" "$(expect 3)"

# ---- output that nobody reads ----
# The first of these jobs goes on while others are tried, for longer than its --hang-timeout.
full unread
begin=$SECONDS
mkdir "$top/unread-tmp"
env TMPDIR="$top/unread-tmp" "$ddprun" -n 2 --hang-warning 1 --hang-timeout 2 "$fake" stage 3 @0 wait "the end of step 1" hang @1 flood 100000000 \
    >"$top/unread" 2>"$top/unread-err" </dev/null &
unread_job=$!
started+=("$unread_job")
full unread-both
new_pids
env "$ddprun" -n 2 --hang-warning 1 "$fake" pid "$pids" complain "last words" @0 await "$pids/rank1" exit 3 @1 hang >"$top/unread-both" 2>&1 </dev/null &
job=$!
started+=("$job")
why=$(within 20 files_in "$pids" 2 && within 20 all_gone "$pids" || echo "ranks are left ")
is_alive "$job" || why+="its reader was not waited for "
kill -TERM "$job"
finish
report "nobody reads stderr: a failure ends the ranks, and one signal ddprun" "$(expect 3)$why"
# A full disk. What is printed is longer than what stdio keeps, and shorter.
for words in --help --help-all --version "-n 1 --dry-run $fake" doctor; do
    # shellcheck disable=SC2086
    run_in_front sh -c 'exec timeout -k 1 60 "$@" >/dev/full' sh "$ddprun" $words
    why=$(expect 1 "$err" '^ddprun: cannot write to stdout: No space left on device; make room')
    [ "$(wc -l <"$err")" = 1 ] || why+="$(wc -l <"$err") lines on stderr "
    report "a full disk, ${words/ */...}" "$why"
done

# ---- exit codes ----
run -n 2 "$fake" @1 exit 3 @0 hang
report "exit code of a rank" "$(expect 3 "$err" '^ddprun: rank 1 ended with exit code 3')"
run -n 2 "$fake" stage 3 step 12 @1 kill 11 @0 hang
report "a signal" "$(expect 139 "$err" '^ddprun: rank 1 was ended by SIGSEGV .*after step 12')"
run -n 1 "$fake" exit 7
report "one rank's exit code" "$(expect 7)"
run -n 2 "$fake" stage 2 @1 fail "gradient w2 cannot be averaged
  details" hang @0 hang
report "a rank that says why" "$(expect 1 "$err" '^ddprun: rank 1 before its first step: gradient w2 cannot be averaged$' "$err" '^  details')"
run -n 3 "$fake" stage 3 step 4 @1 follow "rank 0 is gone" hang @2 hang @0 sleep 50 kill 9
report "a rank that only follows is not the cause" "$(expect 137 "$err" 'rank 0 was ended by SIGKILL')"
run -n 2 "$fake" stage 3 step 4 @1 follow "rank 0 does not answer" hang @0 hang
report "a rank that follows, and nobody else fails" "$(expect 1 "$err" 'rank 1 after step 4: rank 0 does not answer')"
new_pids
start -n 3 "$fake" stage 3 step 4 pid "$pids" @0 hang @1 await "$pids/rank0.dead" follow "rank 0 is gone" exit 1 @2 hang
within 20 files_in "$pids" 3
kill -KILL "$(cat "$pids/rank0")"
finish
report "SIGKILL of a rank" "$(expect 137 "$err" '^ddprun: rank 0 was ended by SIGKILL')$(all_gone "$pids" || echo "ranks are left")"
new_pids
start -n 4 "$fake" stage 3 ignore 15 child "$pids" daemon "$pids" pid "$pids" hang
within 20 files_in "$pids" 12
kill -KILL "$(cat "$pids/rank2")"
# The promise is 2 s; the rest is for a machine that is busy with other tests.
within 4 all_gone "$pids"
why=$(all_gone "$pids" || echo "processes are left ")
finish
report "SIGKILL of a rank ends all, also children and who ignores SIGTERM" "$(expect 137)$why"
new_pids
run -n 2 "$fake" child "$pids" daemon "$pids"
report "a good end leaves nobody behind" "$(expect 0)$(all_gone "$pids" || echo "processes are left")"
# shellcheck disable=SC2016
run --device softgpu -n 2 sh -c 'sh -c "$0 @1 exit 5 @0 hang"; exit $?' "$fake"
report "shells in between" "$(expect 5)"
new_pids
# shellcheck disable=SC2086
run $soft -n 2 sh -c "'$fake' pid '$pids' @1 kill 9 @0 hang; exit 9"
report "shells in between, their children end too" "$(expect 9)$(all_gone "$pids" || echo "processes are left")"
# left_behind ARGS...: a script that leaves its trainer in the background once that trains, and ends well.
# shellcheck disable=SC2016
left_behind() {
    new_pids
    run --device softgpu -n 2 sh -c 'dir=$1; shift; "$0" stage 3 step 5 pid "$dir" "$@" &
        until [ -e "$dir/rank$RANK" ]; do sleep 0.01; done' "$fake" "$pids" "$@"
}
left_behind sleep 700 step 9 say $'saved\n' stage 4
report "a trainer that its script leaves behind trains to its end" \
    "$(expect 0 "$err" '^ddprun: 2 ranks, 9 steps' "$out" '^saved' "$out" '^\[1\] saved')"
left_behind @1 sleep 300 exit 3 @0 hang
report "and is judged by its own end" \
    "$(expect 3 "$err" '^ddprun: rank 1 ended with exit code 3 after step 5')$(all_gone "$pids" || echo "trainers are left")"
new_pids
# shellcheck disable=SC2016
run --device softgpu -n 2 sh -c '("$0" stage 3 step 5 pid "$1" @1 kill 9 @0 hang &)
    until [ -e "$1/rank$RANK" ] && ! grep -q "State:.[RSD]" "/proc/$(cat "$1/rank$RANK")/status"; do sleep 0.01; done' "$fake" "$pids"
report "also if it ends before the script" \
    "$(expect 137 "$err" '^ddprun: rank 1 was ended by SIGKILL .*after step 5')$(all_gone "$pids" || echo "trainers are left")"
# What is left behind and ends is not kept until the job does: neither before a rank has ended nor after.
mkdir "$top/orphans"
cat >"$top/orphans.sh" <<'END'
if [ "$RANK" = 1 ]; then
    echo $$ >"$1/rank1"
    until [ -e "$1/before" ]; do sleep 0.01; done
    exit 0
fi
leave_orphans() {
    for i in 1 2 3 4 5 6 7 8; do (sh -c 'echo $$ >"$0"' "$1/$2$i" &); done
    looks=0
    for i in 1 2 3 4 5 6 7 8; do
        until [ -s "$1/$2$i" ] && ! grep -q "^PPid:.$PPID\$" "/proc/$(cat "$1/$2$i")/status" 2>/dev/null; do
            [ $((looks += 1)) -lt 2000 ] || exit 9
            sleep 0.01
        done
    done
}
leave_orphans "$1" first
touch "$1/before"
until [ -s "$1/rank1" ] && grep -q "State:.Z" "/proc/$(cat "$1/rank1")/status"; do sleep 0.01; done
leave_orphans "$1" second
END
run --device softgpu -n 2 sh "$top/orphans.sh" "$top/orphans"
report "orphans of ranks are taken away when they end" "$(expect 0)"

# ---- ends from outside ----
for name in INT:130 TERM:143 HUP:129 QUIT:131; do
    new_pids
    start -n 2 --max-restarts 1 "$fake" stage 3 pid "$pids" hang
    within 20 files_in "$pids" 2
    kill -"${name%:*}" "$job"
    finish
    report "SIG${name%:*} ends all, for good" "$(expect "${name#*:}" "$err" "^ddprun: SIG${name%:*}: ending 2 ranks" "$err" '^ddprun: no restart')$(all_gone "$pids" || echo "ranks are left")$(no_folders_left)"
done
err=$top/unread-err
why=$(within 20 grep -q '^ddprun: nobody has read stdout for' "$err" || echo "nothing is said ")
while [ $((SECONDS - begin)) -lt 5 ]; do sleep 0.1; done # nothing is to happen
is_alive "$unread_job" || why+="the job has ended "
report "nobody reads stdout: who prints does not hang" "$why$(grep 'no CUDA call' "$err")"
kill -TERM "$unread_job"
# A scheduler warns of the end of the time in this way; who does not expect it ends as without ddprun.
new_pids
start -n 2 "$fake" stage 3 @0 catch 10 "$pids/0" catch 12 "$pids/2" say saved @1 catch 10 "$pids/1" catch 12 "$pids/3" @all stage 4 exit 0
why=
for name in USR1:0:1 USR2:2:3; do
    within 20 test -e "$pids/$(cut -d: -f2 <<<$name)" && within 20 test -e "$pids/$(cut -d: -f3 <<<$name)" || why+="no SIG$name "
    kill -"${name%%:*}" "$job"
done
finish
report "SIGUSR1 and SIGUSR2 are the ranks'" "$(expect 0 "$out" '^saved')$why$(no_folders_left)"
new_pids
start -n 2 "$fake" stage 3 ignore 2 pid "$pids" hang
within 20 files_in "$pids" 2
kill -INT "$job"
within 20 grep -q SIGINT "$err"
kill -INT "$job"
within 3 all_gone "$pids"
why=$(all_gone "$pids" || echo "ranks that ignore SIGINT are left ")
finish
report "a second Ctrl-C kills" "$(expect 130)$why"
new_pids
# shellcheck disable=SC2016
start -n 2 --device softgpu sh -c 'sleep 700 & echo $! >"$1/loader$RANK"; exec "$0" stage 3 pid "$1" hang' "$fake" "$pids"
within 20 files_in "$pids" 4
kill -KILL "$job"
why=$(within 10 all_gone "$pids" || echo "processes are left ")
finish
report "SIGKILL of the launcher ends the ranks and what they have started" "$why"
why=$([ "$(find "$TMPDIR" -mindepth 1 -maxdepth 1 | wc -l)" -le 1 ] || echo "more than one folder")
run "$fake" exit 0
report "the next launcher clears its folder away" "$(expect 0)$why$(no_folders_left)"
new_pids
start -n 2 "$fake" pid "$pids" hang
within 20 files_in "$pids" 2
run "$fake" exit 0
report "but not that of a running one" "$([ "$(find "$TMPDIR" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] || echo "folder is gone")"
kill -TSTP "$job"
is_stopped() { grep -q 'State:.T' "/proc/$1/status"; }
why=$(within 10 is_stopped "$(cat "$pids/rank1")" && within 10 is_stopped "$job" || echo "not stopped ")
kill -CONT "$job"
is_running() { ! is_stopped "$1"; }
why+=$(within 10 is_running "$(cat "$pids/rank1")" || echo "does not go on ")
kill -TERM "$job"
finish
report "Ctrl-Z stops, fg goes on" "$(expect 143)$why"

job=$unread_job err=$top/unread-err
finish
report "nobody reads stdout: a signal ends the job all the same" \
    "$(expect 143 "$err" '^ddprun: the last of what ranks printed has not been read, and is lost')$(ls -A "$top/unread-tmp")"

# ---- never alone in silence ----
run -n 2 "$fake" @0 stage 3 step 5 hang @1 stage 1
report "a rank that never takes part" "$(expect 1 "$err" '^ddprun: rank 1 ended without taking part')"
run -n 2 "$fake" stage 3 step 5 @1 exit 0 @0 step 6 hang
report "a rank that leaves in the middle" "$(expect 1 "$err" '^ddprun: rank 1 left with exit code 0 after step 5')"
run -n 2 "$fake" stage 3 step 5 exit 0
report "but all may leave so together" "$(expect 0 "$err" '^ddprun: 2 ranks, 5 steps')"
run -n 2 "$fake" stage 3 step 5 @1 exit 0 @0 sleep 2500 say saved exit 0
report "and one after the others, which it did not need any more" "$(expect 0 "$err" '^ddprun: 2 ranks, 5 steps' "$out" '^saved')"
run -n 2 "$fake" stage 3 @1 step 5 stage 4 exit 0 @0 step 6 hang
report "a rank that makes fewer steps" "$(expect 1 "$err" '^ddprun: rank 1 ended after step 5, others went on to step 6')"
run -n 2 "$fake" stage 3 step 5 check 1 5 0x11 @1 check 1 5 0x12 @all stage 4
report "hashes that differ" "$(expect 1 "$err" '^ddprun: parameters differ between ranks 0 and 1 after step 5')"
# Nor does it take effect where it did in another process of the rank, such as a probe.
new_pids
# shellcheck disable=SC2016
start --device softgpu -n 2 sh -c 'LD_PRELOAD= "$0" load libcuda.so.1 pid "$2" hang &
    until [ -e "$2/rank$RANK" ]; do sleep 0.01; done; "$1" stage 1; wait' "$plain" "$fake" "$pids"
finish
report "a preload that did not take effect" "$(expect 1 "$err" '^ddprun: rank [01] uses the CUDA driver in process [0-9]+, which')$(all_gone "$pids" || echo "trainers are left")"
start -n 2 "$fake" load libcuda.so.1 sleep 6500 exit 0
finish
report "a driver that waits beside our library is left alone" "$(expect 0)"
run --device softgpu -n 2 sh -c "unset LD_PRELOAD; exec '$plain' load libcuda.so.1 sleep 3000"
report "a short program without the preload" "$(expect 1 "$err" '^ddprun: rank [01] used the CUDA driver in a process')"
run -n 2 "$fake" stage 1
report "nobody trained" "$(expect 0 "$err" '^ddprun: no rank used a GPU under ddprun: nothing was averaged')"

# ---- the closing lines ----
train="stage 3 step 100 overlapped 97 gradients 6 70000 3 check 4 100 0xabc stage 4"
# shellcheck disable=SC2086
{
    run -n 2 "$fake" $train
    report "closing lines" "$(expect 0 "$err" '^ddprun: 2 ranks, 100 steps, 97 of them overlapped with backward; 6 gradients, 68.4 KiB per step, in 3 buckets$' \
        "$err" '^ddprun: parameters bitwise identical on all ranks \(hash 0000000000000abc, compared 4 times, last after step 100 of 100\)$')$([ "$(wc -l <"$err")" = 2 ] || echo "not 2 lines")"
    run -q -n 2 "$fake" $train
    report "-q" "$(expect 0)$(cat "$err")"
}
run -n 2 "$fake" stage 3 step 100 stage 4
report "what was not compared is not claimed" "$(expect 0 "$err" 'parameters were not compared')$(grep identical "$err")"

# ---- PMIx ----
run --device softgpu -n 4 "$helpers/launcher_pmix_client" exchange
report "PMIx: put, commit, fence, get" "$(expect 0 "$out" '^\[3\] exchanged among 4')"
run --device softgpu -n 3 "$helpers/launcher_pmix_client" abort 1 42
report "PMIx: abort" "$(expect 42 "$err" '^ddprun: rank 1 asked for the end of the job by PMIx_Abort\(42\): had enough')"
run --device softgpu -n 3 "$helpers/launcher_pmix_client" leave 2
report "PMIx: a rank that leaves without a word" "$(expect 1 "$err" '^ddprun: rank 2 left with exit code 0')"

report "no folder is left" "$(no_folders_left)"
[ "$failures" = 0 ]
