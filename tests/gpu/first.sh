#!/usr/bin/env bash
# first.sh - what is so on this machine's GPUs: blocks of checks of ddprun, each with what was expected and what was seen, and
# then the end-to-end tests of run.sh. What decides most comes first. Part of the bundle (bundle.sh); README.md beside it says how to read the report.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/gpu
source "$here/libraries.sh"
source "$here/report.sh"
source "$here/commands.sh"
source "$here/blocks.sh"
source "$here/checks.sh"
source "$here/several.sh"
source "$root/softgpu/tests/lib/patience.sh"
all_scripts=(equality libraries wire types habits graphs overlap faults inert tables)
script_limit=600 # seconds of an end-to-end test

usage() {
    cat <<HELP
Usage: first.sh [options] [BLOCK|CHECK...]
Runs blocks of checks on the GPUs of this machine, what decides most first, then the end-to-end tests, and writes report.md and
report.json. A block ends after $block_limit s; after each the report is packed.
Without a BLOCK or a CHECK it runs all, and scripts. scripts is all end-to-end tests, script/NAME one of them: ${all_scripts[*]}.
The blocks and their checks:
$(print_blocks)

  --minutes N      end after N minutes: blocks that do not fit are left out, and so are the end-to-end tests
  --report FOLDER  where the report goes (default: ./ddprun-gpu-report): report.md, report.json, machine/ and logs/;
                   FOLDER.tar.xz is all of it
  --ranks N        ranks of the checks of all GPUs (default: as many as GPUs)
  --nccl FILE      one more NCCL that training is tried with (check nccls); may be repeated
  --no-mps         no MPS where ranks share a GPU
  --rehearse       on the stand-in, with small sizes, to try out the bundle
  --help           print this
HELP
}

fail() { # CODE MESSAGE
    printf 'first.sh: %s\n' "$2" >&2
    exit "$1"
}

# whole NAME TEXT: ends the script unless TEXT is a whole number from 1
whole() {
    [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || fail 2 "$1 wants a whole number from 1 to 99999, not '$2'"
}

report=ddprun-gpu-report minutes='' all='' nccls=() rehearse=0 with_mps=1
while [ $# -gt 0 ]; do
    case $1 in
    --report | --minutes | --ranks | --nccl) [ $# -ge 2 ] || fail 2 "$1 wants a value; --help lists the options" ;;
    esac
    case $1 in
    --report) report=$2 && shift ;;
    --minutes) whole "$1" "$2" && minutes=$2 && shift ;;
    --ranks) whole "$1" "$2" && all=$2 && shift ;;
    --nccl)
        [ -f "$2" ] || fail 2 "--nccl $2: no such file"
        nccls+=("$(realpath "$2")") && shift
        ;;
    --rehearse) rehearse=1 ;;
    --no-mps) with_mps=0 ;;
    --help)
        usage
        exit 0
        ;;
    -*) fail 2 "$1: unknown option; --help lists them" ;;
    *) break ;;
    esac
    shift
done

# What is to run: checks, and end-to-end tests.
declare -A is_wanted
scripts=()
if [ $# -eq 0 ]; then
    set -- "${block_names[@]}"
    [ -n "$minutes" ] || set -- "$@" scripts
fi
for name in "$@"; do
    if [ -n "${block_checks[$name]:-}" ]; then
        for check in ${block_checks[$name]}; do
            is_wanted[$check]=1
        done
    elif [[ " ${all_checks[*]} " == *" $name "* ]]; then
        is_wanted[$name]=1
    elif [ "$name" = scripts ]; then
        scripts+=("${all_scripts[@]}")
    elif [[ " ${all_scripts[*]/#/script/} " == *" $name "* ]]; then
        scripts+=("${name#script/}")
    else
        fail 2 "$name: no such block or check; --help lists them"
    fi
done

# ---- what is here ----
gpus=$(gpu_count)
[ "$rehearse" -eq 1 ] || [ "$gpus" -gt 0 ] || fail 2 'no NVIDIA GPU (asked nvidia-smi -L, looked for /dev/nvidia*)'
all=${all:-$gpus}
[ "$rehearse" -eq 0 ] || with_mps=0
build=$root/build
gpu_cuda_of "$build"
gpu_libraries_find "${gpu_library_names[@]}" || exit 2
programs=$build/gpu
data=$root/samples/data
export LD_LIBRARY_PATH=$gpu_library_path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
gpu_bundle_libraries "$root"

mkdir -p "$report" 2>/dev/null || fail 1 "cannot make $report"
report=$(cd "$report" && pwd)
earlier=("$report"/{rows,conditions,report.md,report.json}) others=("$report"/{logs,machine})
if [ -z "$(ls -d "${earlier[@]}" 2>/dev/null)" ] && [ -n "$(ls -d "${others[@]}" 2>/dev/null)" ]; then
    fail 2 "$report has logs or machine that are no report's; name another folder by --report"
fi
rm -rf "${earlier[@]}" "${others[@]}" "$report".tar.[xg]z
{ : >"$report/rows" && : >"$report/conditions" && mkdir "$report"/{logs,machine}; } 2>/dev/null || report_fails
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-first-XXXXXX") || fail 1 "cannot make a folder in ${TMPDIR:-/tmp} (TMPDIR)"
trap 'gpu_mps_stop; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export XDG_CACHE_HOME=$work/cache

version=$("$build/bin/ddprun" --version 2>&1) ||
    fail 2 "build/bin/ddprun does not start here: ${version%%$'\n'*} (the bundle needs glibc 2.36; this is $(getconf GNU_LIBC_VERSION))"
report_condition "ddprun" "$version"
report_condition "kernel" "$(uname -sr)"
report_condition "libc" "$(getconf GNU_LIBC_VERSION)"
report_condition "cores" "$(nproc)"
report_condition "GPUs" "$(timeout 10 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"
for name in "${gpu_library_names[@]}"; do
    report_condition "$name" "${gpu_library[$name]}"
done

device=(--device gpu --share-gpu --nccl "${gpu_library[libnccl.so.2]}")
kernels=$build/lib/ddprun-kernels.fatbin state_kernels=$build/lib/ddprun-plan-kernels.fatbin
of_shell=() # besides, where ddprun starts a shell
if [ "$rehearse" -eq 1 ]; then
    device=() of_shell=(--device softgpu)
    kernels=$build/lib/softgpu/libddprun-kernels.so state_kernels=$build/lib/softgpu/libddprun-plan-kernels.so
fi

# record FILE COMMAND...: what the command says of the machine, in machine/FILE
record() {
    timeout -k 2 10 "${@:2}" </dev/null 2>/dev/null >"$report/machine/$1" 2>&1 || echo "($2: exit code $?)" 2>/dev/null >>"$report/machine/$1"
}

record_machine() {
    record nvidia-smi.txt nvidia-smi -q
    record gpus.txt nvidia-smi -L # and parts by MIG
    record topology.txt nvidia-smi topo -m
    record driver.txt cat /proc/driver/nvidia/version
    record cores.txt lscpu
    record shared_memory.txt df -h /dev/shm
    ulimit -a >"$report/machine/limits.txt"
    record mps.txt bash -c 'grep -ls "^nvidia-cuda-mps" /proc/[0-9]*/comm || echo "no MPS runs"; ls -la "${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}"'
    record interfaces.txt grep . /sys/class/net/*/{operstate,flags}
    env | grep -E '^(NCCL|CUDA|NVIDIA|DDPRUN|SOFTGPU|UCX|OMP|SLURM|LD_)' | sort >"$report/machine/environment.txt"
}

script() { # NAME
    local status=0 passed failed first options=() limit=$script_limit
    now=script-$1
    log_begin
    local text=$log/stdout
    [ "$with_mps" -eq 1 ] || options+=(--no-mps)
    [ "$rehearse" -eq 0 ] || options+=(--rehearse)
    [ "$(seconds_left)" -ge "$limit" ] || limit=$(seconds_left)
    if [ "$limit" -lt 60 ]; then
        not_run "end-to-end test $1" "all cases pass" "of $minutes minutes too little was left"
        return
    fi
    [ "$rehearse" -eq 0 ] || limit=$(patient "$limit")
    timeout -k 20 "$limit" bash "$here/run.sh" "${options[@]}" "$build" "$1" </dev/null >"$text" 2>&1 || status=$?
    passed=$(awk '/^ok - / { n++ } /^[0-9]+%: Checks: / { n += $3 - $5 - $7 } END { print n + 0 }' FS='[ ,]+' "$text")
    failed=$(awk '/^not ok - / { n++ } /^[0-9]+%: Checks: / { n += $5 + $7 } END { print n + 0 }' FS='[ ,]+' "$text")
    first=$(grep -E -m 1 '^not ok - |:[FE]:' "$text")
    if [ "$status" -eq 77 ]; then
        report_row "end-to-end test $1" "all cases pass" "$(tail -n 1 "$text")" "not run"
    else
        report_row "end-to-end test $1" "all cases pass" \
            "$passed passed, $failed failed, exit code $status${first:+; the first: $first}" \
            "$([ "$status" -eq 0 ] && echo ok || echo differs)"
    fi
}

# ---- blocks ----
run_check() { # NAME
    now=$1
    if [ "$serves" -ne 0 ] && [ "$now" != doctor ]; then
        not_run "$now" "the driver serves" "the driver makes no context; see the first row"
        return
    fi
    case $now in
    addresses | tensor_maps | reading | waits | costs) probe "${now//_/-}" ;;
    *) "$now" ;;
    esac
}

run_block() { # NAME
    local check lack chosen=()
    for check in ${block_checks[$1]}; do
        [ -z "${is_wanted[$check]:-}" ] || chosen+=("$check")
    done
    [ ${#chosen[@]} -gt 0 ] || return 0
    lack=$(block_lacks "$1")
    if [ -n "$lack" ]; then
        not_run "block $1: ${chosen[*]}" "at most $block_limit s" "$lack"
        return
    fi
    block_begin "$block_limit" "${block_needs[$1]}"
    for check in "${chosen[@]}"; do
        run_check "$check"
    done
    block_finish "$1"
}

record_machine 2>/dev/null
now=driver
driver
serves=$code
for name in "${block_names[@]}"; do
    run_block "$name"
done
gpu_mps_stop # run.sh has its own
for name in "${scripts[@]}"; do
    [ "$serves" -eq 0 ] && script "$name" || run_check "script/$name"
done
no_log
report_pack
differs=$(report_differs)
printf 'report: %s, %d KiB; it holds report.md, report.json, logs/, machine/; %d rows, %d differ\n' "$packed" \
    $((($(stat -c %s "$packed") + 1023) / 1024)) "$(wc -l <"$report/rows")" "$differs"
[ "$differs" -eq 0 ]
