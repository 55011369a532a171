# shellcheck shell=bash disable=SC2034 # the scripts that source it use its variables
# lib.sh - sourced by run.sh, output.sh, ends.sh, seen.sh, bind.sh and doctor.sh, whose first argument is the folder of a build: a
# private installation of its ddprun with stubs, in one temporary folder ($top), and what cases are made of.
#
# A case that cannot run here prints `skip - name (why)`. All that is started is ended by its id. A case waits for conditions with a deadline, never for a time.
set -u
# shellcheck source=tests/lib/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/lib.sh"

build=$(cd "${1:?usage: ${0##*/} BUILD}" && pwd)
helpers=$build/tests/launcher
for part in bin/ddprun lib/libddprun-pmix.so tests/launcher/{launcher_fake,launcher_fake_softgpu,liblauncher_{stub_nvml,stop_before_exec}.so}; do
    if [ ! -e "$build/$part" ]; then
        echo "not ok - launcher (no $build/$part: build the target tests first)"
        exit 1
    fi
done
top=$(mktemp -d)
started=()
limit=$(patient 60) # of one command
export limit        # for shells in quotes
# No settings but a case's own.
export TMPDIR=$top/tmp
unset XDG_RUNTIME_DIR CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_HOME SOFTGPU_DEVICES LD_PRELOAD LD_LIBRARY_PATH NO_COLOR
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID "${!PET_@}"
unset OMP_NUM_THREADS NCCL_HOSTID NCCL_SOCKET_IFNAME HWLOC_XMLFILE HWLOC_SYNTHETIC SLURM_STEP_NUM_TASKS PMIX_NAMESPACE "${!DDPRUN_@}"
export DDPRUN_FAILURE_REPORT=- # reports are looked at whole, and leave no file
mkdir -p "$top/tmp" "$top/bin" "$top/lib/softgpu" "$top/gpu"

# The launcher finds its libraries from its own place: a private copy with stubs, whatever else the build holds.
cp "$build/bin/ddprun" "$top/bin/ddprun"
for part in libddprun.so libddprun-engine.so softgpu/libcuda.so.1; do
    cp "$helpers/liblauncher_stub_library.so" "$top/lib/$part"
done
cp "$helpers/liblauncher_stub_nvml.so" "$top/gpu/libnvidia-ml.so.1"
cp "$build/lib/libddprun-pmix.so" "$top/lib"
ddprun=$top/bin/ddprun
fake=$helpers/launcher_fake_softgpu # a trainer of the stand-in's
plain=$helpers/launcher_fake        # one of a GPU's
soft="--device softgpu"
# A launcher that is itself built with AddressSanitizer wants its runtime first among what is preloaded.
asan=$(ldd "$ddprun" | sed -n 's/.*=> \(.*libasan[^ ]*\) .*/\1/p')
# Memory that PMIx keeps until its end is not what is looked for here.
export LSAN_OPTIONS=suppressions=$top/lsan:print_suppressions=0
printf 'leak:libpmix\nleak:libhwloc\nleak:libevent\nleak:libnccl\n' >"$top/lsan"

# The number of a process that ended may be another one's by now: this test's have its TMPDIR.
is_own() { grep -qszx "TMPDIR=$top/tmp" "/proc/$1/environ" 2>/dev/null; }
clean_up() {
    local pid
    for pid in "${started[@]}" $(cat "$top"/pids*/* 2>/dev/null); do
        is_own "$pid" && kill -KILL "$pid" 2>/dev/null
    done
    rm -rf "$top"
}
at_exit clean_up

is_alive() {
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 1
    [ -n "$state" ] && [ "$state" != Z ] && [ "$state" != X ]
}
all_gone() {
    local pid
    for pid in $(cat "$1"/*); do is_alive "$pid" && is_own "$pid" && return 1; done
    return 0
}
files_in() { [ "$(find "$1" -type f ! -name '*.new' | wc -l)" -ge "$2" ]; }
new_pids() { pids=$(mktemp -d "$top/pidsXXXXXX"); }

# run ARGS...: ddprun in the foreground; sets rc, out and err (files).
out=$top/out err=$top/err
run() { run_in_front timeout -k 1 "$limit" "$ddprun" "$@"; }
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
# start_all COUNT ARGS...: start, until so many processes have left their ids in $pids.
start_all() {
    start "${@:2}"
    within 20 files_in "$pids" "$1"
}
# end_job: waits for the job with a deadline; sets rc.
end_job() {
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
# gives NAME RC [FILE REGEX]... -- COMMAND...: what a command, run or one like it, gives is as expected.
gives() {
    local name=$1 expected=("$2")
    shift 2
    while [ "$1" != -- ]; do
        expected+=("$1" "$2")
        shift 2
    done
    "${@:2}"
    report "$name" "$(expect "${expected[@]}")"
}
is_empty() { [ -z "$(ls -A "$1" 2>/dev/null)" ]; }
no_folders_left() { [ -z "$(ls -A "$TMPDIR" 2>/dev/null)" ] || echo -n "left in TMPDIR: $(ls "$TMPDIR") "; }
# bad NAME CODE REGEX ARGS...: ddprun refuses, by one line on stderr and nothing on stdout.
bad() {
    local name=$1 code=$2 regex=$3 why
    shift 3
    run "$@"
    why=$(expect "$code" "$err" "^ddprun: .*$regex")
    [ "$(wc -l <"$err")" = 1 ] || why+="$(wc -l <"$err") lines on stderr "
    [ ! -s "$out" ] || why+="something on stdout "
    report "$name" "$why$(no_folders_left)"
}
# full NAME: a pipe that takes nothing more, in $top; its reader is this script, which does not read.
full() {
    mkfifo "$top/$1"
    # shellcheck disable=SC2034 # kept open to the end
    exec {unread}<>"$top/$1"
    dd if=/dev/zero of="$top/$1" bs=4096 oflag=nonblock 2>/dev/null
}
